"""A digest of bytes in memory, quick enough to be taken each time that they are used.

What was made of a tensor's bytes holds as long as they stay the same, and no counter sees every way
to change them. Of changes that nobody made for it, about one in 2⁶⁴ goes unseen. Not here: what is
kept under a digest (`held`).

Of words w and keys k that count up, Σ w and Σ low(w + k) · high(w + k) are taken modulo 2⁶⁴ in each
lane of four vectors; the second is NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999).
These sums, and the bytes that fill no four vectors, are then mixed word by word.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache, reduce
from importlib.resources import files
from typing import Any

from ...ir.errors import BackendError
from .jit import code_generator, load
from .processor import LLVM_LOCK, llvm_binding

_VECTORS, _LANES, _WORD = 4, 8, 8
_ROW = _VECTORS * _LANES * _WORD
"""Bytes that the main loop takes at a time."""
_STEP = 0x9E3779B97F4A7C15
"""From one key to the next: odd, 2⁶⁴ divided by the golden ratio."""
_FACTORS = 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD
"""Odd, with about as many ones as zeros: a word that is mixed in is multiplied by both."""

Digest = Callable[[int, int], int]


@cache
def digest_function() -> Digest:
    """From an address and a number of bytes to their digest, an integer of 64 bits.

    Without llvmlite it is BLAKE2b, which takes far longer.
    """
    try:
        llvm_binding()
    except BackendError:
        return _blake
    source = files(__package__ or "").joinpath("digest.py").read_bytes()
    library = load(f"digest {hashlib.sha256(source).hexdigest()}", _compiled)
    return library.function("digest", [ctypes.c_int64, ctypes.c_int64], ctypes.c_int64)


def _blake(address: int, size: int) -> int:
    memory = (ctypes.c_char * size).from_address(address) if size else b""
    return int.from_bytes(hashlib.blake2b(memory, digest_size=8).digest(), "little")


def _compiled() -> bytes:
    text = _module()
    with LLVM_LOCK:
        return bytes(code_generator().emit_object(llvm_binding().parse_assembly(text)))


def _module() -> str:
    """`digest(address, size)` in LLVM's language."""
    from llvmlite import ir

    word, byte = ir.IntType(64), ir.IntType(8)
    vector = ir.VectorType(word, _LANES)
    module = ir.Module("digest")
    function = ir.Function(module, ir.FunctionType(word, [word, word]), "digest")
    address, size = function.args
    b: Any = ir.IRBuilder(function.append_basic_block())

    def loop(start: Any, end: Any, step: int, carried: list[Any], body: Any) -> list[Any]:
        """Go from `start` to before `end`; `body` makes the next values of what is carried."""
        before, inside = b.block, function.append_basic_block()
        behind = function.append_basic_block()
        b.cbranch(b.icmp_signed("<", start, end), inside, behind)
        b.position_at_end(inside)
        phis = [b.phi(value.type) for value in (start, *carried)]
        next_values = [b.add(phis[0], word(step)), *body(*phis)]
        for phi, first, following in zip(phis, (start, *carried), next_values, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, inside)
        b.cbranch(b.icmp_signed("<", next_values[0], end), inside, behind)
        b.position_at_end(behind)
        results = [b.phi(value.type) for value in carried]
        for result, first, following in zip(results, carried, next_values[1:], strict=True):
            result.add_incoming(first, before)
            result.add_incoming(following, inside)
        return results

    def all_lanes(value: int) -> Any:
        return vector([value] * _LANES)

    def rows(at: Any, key: Any, *sums: Any) -> list[Any]:
        next_sums = [b.add(key, all_lanes(_STEP))]
        for n in range(_VECTORS):
            place = b.inttoptr(b.add(at, word(n * _LANES * _WORD)), vector.as_pointer())
            words = b.load(place, align=1)
            keyed = b.add(words, key)
            low = b.and_(keyed, all_lanes(0xFFFFFFFF))
            next_sums.append(b.add(sums[2 * n], words))
            next_sums.append(b.add(sums[2 * n + 1], b.mul(low, b.lshr(keyed, all_lanes(32)))))
        return next_sums

    def mixed(state: Any, value: Any) -> Any:
        state = b.mul(b.xor(state, value), word(_FACTORS[0]))
        # Without the second product the highest bit of a word would move to one of the next.
        return b.mul(b.xor(state, b.lshr(state, word(32))), word(_FACTORS[1]))

    def each(kind: Any) -> Any:
        def body(at: Any, state: Any) -> list[Any]:
            value = b.load(b.inttoptr(at, kind.as_pointer()), align=1)
            return [mixed(state, b.zext(value, word))]

        return body

    end = b.add(address, size)
    whole = b.sub(end, b.urem(size, word(_ROW)))
    keys = vector([(lane + 1) * (_STEP ^ lane << 32) % 2**64 for lane in range(_LANES)])
    zeros = [all_lanes(0)] * (2 * _VECTORS)
    _, *sums = loop(address, whole, _ROW, [keys, *zeros], rows)
    # Four chains of products run beside each other.
    chains = [size] * _VECTORS
    for lane in range(_LANES):
        for n, total in enumerate(sums):
            chains[n // 2] = mixed(chains[n // 2], b.extract_element(total, word(lane)))
    state = reduce(mixed, chains, size)
    words = b.sub(end, b.urem(size, word(_WORD)))
    (state,) = loop(whole, words, _WORD, [state], each(word))
    (state,) = loop(words, end, 1, [state], each(byte))
    b.ret(state)
    return str(module)
