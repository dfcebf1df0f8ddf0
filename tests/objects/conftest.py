"""The fixture that compiles C to an object, as the tests of objects' files have it."""

from tests.objfile.conftest import compile_c

__all__ = ["compile_c"]
