"""What a network computes, stage by stage and op by op, as one record and the forms made of it.

`record` says what a record holds and gathers it; `page`, `formats` and `small` show it. Not here:
the command (`commands.explore`).
"""
