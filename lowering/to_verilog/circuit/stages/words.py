"""Words of a stream as the beats of a network of stages, and its results as words.

Both ends have a buffer that is ready by a register. The mark of a packet's end, `tlast`, stands on
the last word of a frame; it waits beside the network for the last word of the frame's result. Not
here: how frames lie in words (`framing`), the ports (`stream`), and
networks that are one pipeline (`credits`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ..framing import Framing
from .body import StageBody
from .counters import Counter
from .frames import last_stage
from .links import fifo_stage, fork_stage, turns_stage
from .network import Network
from .repacking import collect_stage, raw, spread_stage
from .stage import Layout, Stage


def words_layout(framing: Framing) -> Layout:
    """Words, and whether a packet ends with each."""
    return Layout(((0, (1 << framing.width) - 1), (0, 1)), framing.words)


def beats_of_words(network: Network, framing: Framing, layout: Layout) -> tuple[int, int]:
    """The channel of the beats that a network's words hold, and that of its frames' marks.

    Args:
        network: whose input has the `words_layout`.
    """
    add, name = network.add, network.unique
    (words,) = add(turns_stage(name("words_in"), network.layouts[0]), [0])
    words, marks = add(fork_stage(name("words"), network.layouts[words], [[0], [1]]), [words])
    # Buffers of a bit on both sides keep the queue of marks out of the ready of words.
    (marks,) = add(turns_stage(name("marks_in"), network.layouts[marks]), [marks])
    (marks,) = add(last_stage(name("mark"), network.layouts[marks]), [marks])
    marks = network.fifo(name("marks"), marks)
    (marks,) = add(fifo_stage(name("marks_out"), network.layouts[marks], 2), [marks])
    count, together = framing.beats_of_block, framing.words_of_block
    block = layout if count == 1 else raw(framing.block, -(-framing.beats // count))
    if together > 1:
        (words,) = add(turns_stage(name("words_sent"), network.layouts[words]), [words])
    stage = collect_stage(
        name("collect_in"), network.layouts[words], block, together, [0], framing.width
    )
    (beats,) = add(stage, [words])
    if count > 1:
        bits = 8 * framing.beat_bytes
        stage = spread_stage(name("spread_in"), block, layout, count, [0], bits)
        (beats,) = add(stage, [beats])
    return beats, marks


def words_of_beats(
    network: Network, framing: Framing, channel: int, order: Sequence[int], marks: int
) -> int:
    """The channel of the words that hold a network's results.

    Args:
        channel: of the results.
        order: their elements in the order in which they go out.
        marks: a beat a frame, 1 where its last word is marked.
    """
    add, name = network.add, network.unique
    beats, count = network.layouts[channel], framing.beats_of_block
    if count > 1:
        bits = 8 * framing.beat_bytes
        block = raw(framing.block, -(-framing.beats // count))
        stage = collect_stage(name("collect_out"), beats, block, count, order, bits)
        (channel,) = add(stage, [channel])
        order = [0]
    stage = _mark_stage(name("marked"), network.layouts[channel])
    (channel,) = add(stage, [channel, marks])
    (blocks,) = stage.outputs
    words = _marked_words(name("spread_out"), blocks, framing, order)
    (channel,) = add(words, [channel])
    return channel


def _mark_stage(name: str, input: Layout) -> Stage:
    """Blocks with whether a frame ends with them, and whether a packet does; no registers but of
    the place in a frame of several blocks."""
    output = Layout((*input.bounds, (0, 1), (0, 1)), input.beats, input.level)
    body = StageBody(input, Layout(((0, 1),)))
    (block, mark), (has_block, has_mark) = body.in_data, body.in_valid
    place = Counter(body, input.beats, "block", early=True)
    last = place.last
    may = body.any_of(has_mark, body.inverse(last))
    goes = body.all_of(body.out_ready[0], may)
    place.step(body.all_of(goes, has_block, name="moved"))
    data = body.joined([block, last, body.all_of(last, mark)])
    readies = goes, body.all_of(body.out_ready[0], last, has_block)
    comment = f"Marks the last of {input.beats} blocks of a frame as its sender did"
    return body.finish(name, comment, readies, [(output, data, body.all_of(has_block, may))])


def _marked_words(name: str, input: Layout, framing: Framing, order: Sequence[int]) -> Stage:
    """Marked blocks as words, and whether a packet ends with each."""
    width = framing.width
    missing = width - 8 * framing.last_bytes
    last_word = (framing.words - 1) % framing.words_of_block

    def finished(body: StageBody, word: SSAValue, index: int) -> SSAValue:
        if index != last_word:
            return body.joined([word, body.constant(0, 1)])
        last, ends = (body.extract(body.in_data[0], input.width - at, 1) for at in (2, 1))
        if missing:
            # Bytes that a frame has not are zero, whatever stood there in the block before.
            here = body.repeated(body.inverse(last), missing)
            upper = body.all_of(body.extract(word, width - missing, missing), here)
            word = body.joined([body.extract(word, 0, width - missing), upper])
        return body.joined([word, ends])

    output = words_layout(framing)
    return spread_stage(name, input, output, framing.words_of_block, order, width, finished)
