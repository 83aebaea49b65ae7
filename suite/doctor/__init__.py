"""The doctor: in a few seconds, without root and without torch, what this machine can and cannot prove, and what to do about it.

`survey` looks at everything once, `checks` judge the survey (pure functions), `diagnosis` puts them in order and `render` prints.
"""
