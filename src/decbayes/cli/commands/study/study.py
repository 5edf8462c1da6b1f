"""`decbayes study`: one folder, from the question to the report."""

from cyclopts import App

app = App(name="study", help="Run a study by files: one folder, a few commands per person, and a report in the end.")

PLACE = "decbayes.cli.commands.study"
COMMANDS = {
    "_beginning": ("new", "plan", "network"),
    "_at_site": ("check", "fit", "preview", "release", "round"),
    "_calibrating": ("calibrate",),
    "_together": ("status", "merge", "report"),
    "_next": ("next",),
}
FUNCTIONS = {"next": "take_turn"}  # `next` is a built-in function

for module, names in COMMANDS.items():
    for name in names:
        app.command(f"{PLACE}.{module}:{FUNCTIONS.get(name, name)}", name=name)
