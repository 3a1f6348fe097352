"""Build the compiled modules; pyproject.toml holds everything else about the package.

A module is compiled if it is a ``.pyx`` file, or a ``.py`` file that ``clob/_build.py`` lists.
After a build, ``clob/_built.json`` maps each compiled module to a hash of its sources.

Environment variables:

==================  ===============================================================================
CLOB_PURE_PYTHON=1  build no compiled module; the package runs from its Python source
CLOB_REQUIRE_ALL=1  fail if a module cannot be compiled
CLOB_TRACE=1        compile line tracing in, which coverage.py needs for .pyx files
CLOB_SANITIZE=1     compile for the address and undefined-behaviour sanitizers
CFLAGS              more flags for the C compiler, ``-march=native`` for example
==================  ===============================================================================
"""

import ast
import hashlib
import json
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

PURE_PYTHON, REQUIRE_ALL, TRACE, SANITIZE = (
    os.environ.get(f"CLOB_{name}") == "1"
    for name in ("PURE_PYTHON", "REQUIRE_ALL", "TRACE", "SANITIZE")
)
DIRECTIVES = {"linetrace": TRACE, "annotation_typing": False}
SANITIZERS = "-fsanitize=address,undefined"
# A function called once is not inlined, since it would bloat the hot loops around it. Aligned loops
# make a batch about 1 percent faster.
HOT = ["-O3", "-fno-inline-functions-called-once", "-falign-functions=64", "-falign-loops=32"]
HOT_MODULES = ("clob.book._book_c", "clob.codec._codec_c", "clob.signing._secp_c")
TRACE_MACROS = [
    ("CYTHON_TRACE", "1"),
    ("CYTHON_TRACE_NOGIL", "1"),
    # Python 3.13 would trace through sys.monitoring, which coverage.py's Cython plugin cannot read.
    ("CYTHON_USE_SYS_MONITORING", "0"),
]


def same_text_modules() -> list[str]:
    """Return the modules compiled from their Python text: ``MODULES`` of ``clob/_build.py``."""
    for node in ast.parse(Path("clob/_build.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MODULES":
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    raise AssertionError("clob/_build.py defines no MODULES")


def sources_of(module: str) -> list[Path]:
    """Return the files whose text makes up a compiled module; a .pyx includes its .pxi files."""
    stem = Path(*module.split("."))
    sources = [stem.with_suffix(suffix) for suffix in (".pyx", ".py", ".pxd")]
    if sources[0].exists():
        sources += sorted(stem.parent.glob("*.pxi"))
    return [path for path in sources if path.exists()]


def hash_of(files: list[Path]) -> str:
    """Return the SHA-256 over the bytes of files, one after the other."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def extensions() -> list[Extension]:
    """List the compiled modules, the largest first, since it takes the longest."""
    names = {".".join(path.with_suffix("").parts) for path in Path("clob").rglob("*.pyx")}
    if not TRACE:  # coverage.py measures the others as plain Python
        names |= set(same_text_modules())
    sizes = {name: sum(path.stat().st_size for path in sources_of(name)) for name in names}
    return [
        Extension(
            name,
            [str(sources_of(name)[0])],
            include_dirs=[str(Path(*name.split(".")[:-1]))],
            define_macros=TRACE_MACROS if TRACE else [],
            # Cython itself follows .pxd and .pxi files: it writes a new .c, which is then compiled.
            depends=[str(path) for path in sources_of(name)[0].parent.glob("*.h")],
            optional=not REQUIRE_ALL,
        )
        for name in sorted(names, key=lambda name: (-sizes[name], name))
    ]


def set_flags(ext: Extension) -> None:
    """Set the flags for gcc and clang."""
    if SANITIZE:
        ext.extra_compile_args += ["-O1", "-g", "-fno-omit-frame-pointer", SANITIZERS]
        ext.extra_link_args += [SANITIZERS]
        return
    ext.extra_compile_args += ["-g0", *(HOT if ext.name in HOT_MODULES else ["-O2"])]
    if sys.platform == "linux":
        ext.extra_link_args += ["-Wl,--strip-debug"]


def discard(outputs: list[Path], stamp: Path, options: str) -> None:
    """Delete the outputs of an earlier build that had other options, and record the options."""
    if stamp.exists() and stamp.read_text() == options:
        return
    for path in outputs:
        path.unlink(missing_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(options)


class BuildExtensions(build_ext):
    """Build what has changed, on all processors; leave out a module that cannot be compiled."""

    def finalize_options(self) -> None:
        """Use every processor, unless ``--parallel`` sets another number."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        """Build, then write the hashes beside the compiled modules."""
        super().run()
        for folder in [self.build_lib, "."] if self.inplace else [self.build_lib]:
            self.write_hashes(Path(folder))

    def build_extensions(self) -> None:
        """Translate the modules to C and compile them."""
        if self.compiler.compiler_type == "unix":
            for ext in self.extensions:
                set_flags(ext)
        flags = f"{TRACE} {SANITIZE} {os.environ.get('CFLAGS')} {hash_of([Path(__file__)])}"
        compiled = [
            Path(self.build_lib, self.get_ext_filename(ext.name)) for ext in self.extensions
        ]
        discard(compiled, Path(self.build_temp, "flags"), flags)
        try:
            self.translate()
        except ImportError as error:
            for ext in self.extensions:
                self.leave_out(ext, error)
        else:
            super().build_extensions()

    def translate(self) -> None:
        """Translate to C, in worker processes, what has changed since the last time."""
        import Cython  # noqa: PLC0415 - may be missing
        from Cython.Build import cythonize  # noqa: PLC0415

        outputs = [Path(ext.sources[0]).with_suffix(".c") for ext in self.extensions]
        discard(outputs, Path("build/directives"), f"{Cython.__version__} {DIRECTIVES}")
        translated = cythonize(
            self.extensions,
            force=self.force,
            nthreads=self.parallel,
            compiler_directives=DIRECTIVES,
        )
        sources = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = sources[ext.name]

    def build_extension(self, ext: Extension) -> None:
        """Compile one module, or leave it out if that fails."""
        try:
            super().build_extension(ext)
        except (CCompilerError, BaseError) as error:
            self.leave_out(ext, error)

    def leave_out(self, ext: Extension, error: Exception) -> None:
        """Say that a module was not built, and remove its older compiled form."""
        if REQUIRE_ALL:
            raise error
        Path(self.build_lib, self.get_ext_filename(ext.name)).unlink(missing_ok=True)
        sys.stderr.write(
            f"\nclob: {ext.name} was not compiled ({error}).\n"
            "clob: the package works without it, from its Python source, but slower.\n"
            "clob: install a C compiler and the headers of Python, then install clob again.\n\n"
        )

    def copy_extensions_to_source(self) -> None:
        """Replace the compiled modules in the source tree; a failed build leaves none behind."""
        for ext in self.extensions:
            Path(self.get_ext_filename(ext.name)).unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def write_hashes(self, folder: Path) -> None:
        """Write the hashes of the sources of what was built into a folder.

        The compiled forms of modules that were removed or renamed since are deleted.
        """
        file = folder / "clob" / "_built.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        hashes = {ext.name: hash_of(sources_of(ext.name)) for ext in self.extensions}
        for name in before.keys() - hashes.keys():
            (folder / self.get_ext_filename(name)).unlink(missing_ok=True)
        present = {
            name: hashes[name]
            for name in sorted(hashes)
            if (folder / self.get_ext_filename(name)).exists()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(present, indent=2) + "\n")


setup(
    ext_modules=[] if PURE_PYTHON else extensions(),
    cmdclass={"build_ext": BuildExtensions},
)
