"""One scope of names for the modules of a circuit."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.to_verilog.circuit.memories import Memory
from triton_dsl.lowering.to_verilog.circuit.module_names import ModuleNames, without_copies


def names(top: str = "net") -> ModuleNames:
    text = "func.func @forward(%x: tensor<1xi8>) -> tensor<1xi8> { func.return %x : tensor<1xi8> }"
    module = parse_module(f"builtin.module @other {{ {text} }}")
    module.sym_name = StringAttr(top)
    return ModuleNames(module)


def test_no_name_is_given_twice() -> None:
    scope = names()
    wishes = ["weight", "weight", "weight_2", "weight", "weight_2_2", "net", "net_tb", "net_pins"]
    given = [scope.new(wish) for wish in wishes]
    assert given[:2] == ["weight", "weight_2"] and given[2] != "weight_2"
    assert len({scope.top, "net_tb", "net_pins", *given}) == len(wishes) + 3
    # Each module is a file of its own, also where file systems have no case.
    assert scope.new("Weight").lower() not in {name.lower() for name in given}


@pytest.mark.parametrize("wish", ["module", "always_ff", "2x", "größe", "a/b", "", "n" * 400])
def test_every_name_is_one_of_verilog(wish: str) -> None:
    name = names().new(wish)
    assert name.isascii() and name.isidentifier() and len(name) < 200
    assert name not in ("module", "always_ff")


def test_the_program_keeps_its_symbols() -> None:
    """A layer called `forward`: the function of that name stays beside the circuit."""
    assert names("forward").top != "forward"
    assert names("forward").top.startswith("forward")


def test_memories_keep_their_names() -> None:
    memory = Memory.ram(3, 8)
    assert names("triton").new(memory.symbol) != memory.symbol


def test_equal_modules_are_one_and_different_ones_an_error() -> None:
    memory = Memory.rom([1, 2, 3, 4], 3)
    first, same = memory.declaration(), memory.declaration()
    assert without_copies([first, same]) == [first]
    other = Memory.rom([1, 2, 3, 5], 3).declaration()
    other.sym_name = first.sym_name
    with pytest.raises(LoweringError, match=f"two different modules .* '{memory.symbol}'"):
        without_copies([first, other])
