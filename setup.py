"""Builds the compiled modules; all else about the package is in pyproject.toml.

What the environment says:

==================  ===============================================================================
CLOB_PURE_PYTHON=1  build no compiled module; the Python twins do the work
CLOB_REQUIRE_ALL=1  a compiled module that cannot be built is an error
CLOB_TRACE=1        compile line tracing in, so that coverage.py sees into the .pyx
CLOB_SANITIZE=1     compile for the address and undefined-behaviour sanitizers
CFLAGS              more flags for the C compiler, ``-march=native`` for example
==================  ===============================================================================
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

SANITIZERS = "-fsanitize=address,undefined"


def asked(name: str) -> bool:
    """Tell whether the environment sets this switch."""
    return os.environ.get(name) == "1"


def optimise(ext: Extension) -> None:
    """Set the flags of a compiler that speaks as gcc and clang do."""
    if asked("CLOB_SANITIZE"):
        ext.extra_compile_args += ["-O1", "-g", "-fno-omit-frame-pointer", SANITIZERS]
        ext.extra_link_args += [SANITIZERS]
    else:
        # What is to be inlined says so; a function called once would bloat the hot loops.
        ext.extra_compile_args += ["-O3", "-fno-inline-functions-called-once"]


def translate(ext: Extension) -> list[str]:
    """Turn the .pyx into C, and return the C sources."""
    from Cython.Build import cythonize  # noqa: PLC0415 - its absence is no error, see below

    trace = asked("CLOB_TRACE")
    if trace:
        # Cython 3.3 on Python 3.13 would trace through sys.monitoring, which the plugin of
        # coverage.py cannot read.
        ext.define_macros += [
            ("CYTHON_TRACE", "1"),
            ("CYTHON_TRACE_NOGIL", "1"),  # most of the module runs without the GIL
            ("CYTHON_USE_SYS_MONITORING", "0"),
        ]
    translated = cythonize(
        [ext],
        # Cython looks at file times and not at directives; a traced .c would linger.
        force=True,
        compiler_directives={"linetrace": trace, "annotation_typing": False},
    )
    sources: list[str] = translated[0].sources
    return sources


OWN_TEXT = (
    "book/_book_c",
    "codec/_codec_c",
    "matcher/entities",
    "replay/io/_numerals_c",
    "signing/_secp_c",
)
"""Modules written in Cython."""

SAME_TEXT = (
    "matcher/accounts",
    "matcher/admission",
    "matcher/order_index",
    "matcher/engine",
    "replay/check/fill_diff",
    "replay/modes/rematch",
    "replay/modes/rows",
    "replay/sim/exchange_account",
    "replay/sim/latency",
    "replay/sim/market_view",
    "replay/sim/orders",
    "replay/sim/portfolio",
    "replay/sim/session",
)
"""Modules compiled from the Python text, with the types of the ``.pxd`` of the same name."""


class BuildOptional(build_ext):
    """Builds the compiled module if it can, and says so if it cannot."""

    def build_extension(self, ext: Extension) -> None:
        """Translate and compile; without Cython or a compiler, leave the module out."""
        # A build that fails must not pass an older module on.
        Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
        if self.compiler.compiler_type == "unix":
            optimise(ext)
        try:
            ext.sources = translate(ext)
            super().build_extension(ext)
        except (ImportError, CCompilerError, BaseError) as error:
            if asked("CLOB_REQUIRE_ALL"):
                raise
            sys.stderr.write(
                f"\nclob: {ext.name} was not built ({error}).\n"
                "clob: the package works without it, on its Python twin, only slower.\n"
                "clob: with a C compiler and the headers of Python, install it again.\n\n"
            )


def extensions() -> list[Extension]:
    """List the compiled modules.

    A traced build leaves out those made from Python, which are measured as such.
    """
    sources = [f"clob/{name}.pyx" for name in OWN_TEXT]
    if not asked("CLOB_TRACE"):
        sources += [f"clob/{name}.py" for name in SAME_TEXT]
    optional = not asked("CLOB_REQUIRE_ALL")
    return [
        Extension(
            ".".join(Path(source).with_suffix("").parts),
            [source],
            include_dirs=[str(Path(source).parent)],
            depends=[str(header) for header in Path(source).parent.glob("*.h")],
            optional=optional,
        )
        for source in sources
    ]


setup(
    ext_modules=[] if asked("CLOB_PURE_PYTHON") else extensions(),
    cmdclass={"build_ext": BuildOptional},
)
