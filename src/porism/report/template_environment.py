"""How templates are read, those of reports and those of the page in a browser."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from porism.report.compiled_templates import CompiledTemplates


def template_environment(package: str) -> Environment:
    """The templates/ of a package. What they are given is escaped, unless it is markup; a missing value is an error."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        bytecode_cache=CompiledTemplates(),
    )
