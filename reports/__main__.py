"""`python -m reports`: the commands are in reports/commands.py."""

from suite.bundle import program

if __name__ == "__main__":
    # What libraries of charts and fonts have to say of a cache or a font is nothing that a reader asked for.
    program.run("reports.commands", quiet_libraries=True)
