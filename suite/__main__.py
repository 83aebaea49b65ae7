"""`python -m suite`: the commands are in suite/commands.py."""

from suite.bundle import program

if __name__ == "__main__":
    program.run("suite.commands")
