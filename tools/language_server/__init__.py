"""`triton-lsp`: what editors ask about `.tri` programs and IR, over the Language Server Protocol.

`program` and `ir` know one text each; `described` and `completion` say what they know in words;
`server` speaks the protocol, which is pygls'. `textmate` makes the grammar that editors colour by.
Not here: the meaning of programs, which the checker and the dialects have.
"""
