"""Stages: the parts of a circuit that works through frames beat by beat.

A stage is one `hw.module` with the *stage interface*:

    inputs   clock: !seq.clock, reset: i1 (active high, synchronous),
             in_data: iN, in_valid: i1, out_ready: i1
    outputs  in_ready: i1, out_data: iM, out_valid: i1

With several inputs or outputs the names are `in0_data`, `in1_data`, `out0_ready`, …. A beat moves
at a clock edge at which valid and ready are both 1. `in_ready` does not depend on the `in_valid` of
the same input, and `out_valid` not on `out_ready`. After reset a stage works for ever: it counts
its own positions, and frames follow each other without a signal between them.

What a channel carries is a `Layout` (`stage`): the elements of a beat, with their bounds, and the
beats of a frame. A beat of an image is one position with all its channels, positions in row-major
order; a beat of a vector is all of it.

To write a kind of stage: make its module with a `StageBody` (`body`), which makes it a `Stage`.
Functions that make one take its `name`, what comes in as `input`, and what it is in words as
`source`; where it has `pacing` and `search`, they say where registers are wanted and how adders are
searched for.
`network` connects stages. How a stage moves beats is read off its module (`handshake`): latency,
initiation interval and the depths of FIFOs follow from that (`schedule`).

`window` makes windows of an image with line buffers, `pipeline.Core` puts a handshake around a
circuit, `frames` collects positions or adds them up, `links` has joins, forks and FIFOs.

Programs on trains: a beat is a time step. `neurons` and `frames` have their stages. `partition`
says which parts a program falls into, `building` makes the stages of the parts.
"""
