"""The image sets that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet, PublicFile

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
OCTMNIST_URL = "https://zenodo.org/records/10519652/files/octmnist.npz"

PUBLIC = {
    "mnist": DataSet(
        about="MNIST: 70,000 handwritten digits, 28 x 28",
        licence="CC BY-SA 3.0",
        files={
            part: PublicFile(f"mnist/{part}", f"{MNIST_URL}/{part}.gz", sha256)
            for part, sha256 in {
                "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            }.items()
        },
    ),
    "fashion-mnist": DataSet(
        about="Fashion-MNIST: 70,000 pictures of clothes, 28 x 28",
        licence="MIT",
        files={
            part: PublicFile(f"fashion-mnist/{part}", f"{FASHION_URL}/{part}.gz", sha256)
            for part, sha256 in {
                "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            }.items()
        },
    ),
    "octmnist": DataSet(
        about="OCTMNIST: 109,309 scans of the retina, 28 x 28, four classes",
        licence="CC BY 4.0",
        files={
            "all": PublicFile("octmnist/octmnist.npz", OCTMNIST_URL, md5="c68d92d5b585d8d81f7112f81e2d0842"),
        },
    ),
}

CATALOGUE = {
    "digits": DataSet("1,797 handwritten digits, 8 x 8, real scans: the default", "CC BY 4.0"),
    **PUBLIC,
}
"""Image sets known by name. Anything else is a path."""
