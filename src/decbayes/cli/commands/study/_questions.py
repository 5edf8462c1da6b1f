"""Questions that `decbayes study new` asks on a terminal; the answers are options."""

from collections.abc import Sequence

from decbayes.cli.shared.model_options import missing_options
from decbayes.cli.shared.terminal import messages
from decbayes.models.core.registry import SHIPPED, kind_called

# Questions of a study, and the model that answers each.
KINDS = {
    "what influences a number": "linear-regression",
    "what influences yes or no": "logistic-regression",
    "what influences a count": "negative-binomial-regression",
    "what influences how long something takes": "survival-regression",
    "which kinds of cases there are (a table)": "classes",
    "which groups of points there are": "mixture",
    "what texts are about": "topics",
    "which states sequences go through": "states",
}


def ask_for_protocol(model: str, sites: str, question: str, words: Sequence[str]) -> tuple[str, str, str, list[str]]:
    """Ask for what is missing: the model, the sites, the question and the model's options."""
    question = question or ask("What is the question of the study? ")
    if not model:
        for number, (about, name) in enumerate(KINDS.items(), start=1):
            messages().print(f"  {number}  {about} ({name})")
        model = model_named(ask("What should be found? Number or name: "))
    options = list(words)
    for option in needed_options(model):
        if not any(word == option or word.startswith(f"{option}=") for word in options):
            options += [option, ask(f"{option} {EXAMPLES.get(option, '')}: ")]
    sites = sites or ask("Names of the sites, separated by commas: ")
    return model, sites, question, options


EXAMPLES = {
    "--formula": "(as in 'died ~ age + ward', or 'Surv(days, died) ~ age')",
    "--components": "(number of groups)",
    "--topics": "(number of topics)",
}


def model_named(text: str) -> str:
    names = [*KINDS.values()]
    return names[int(text) - 1] if text.isdecimal() and 0 < int(text) <= len(names) else text.strip()


def needed_options(model: str) -> list[str]:
    if model not in {name for _, name in SHIPPED.values()}:
        return []
    kind = kind_called(model)
    formula = ["--formula"] if model.endswith("regression") else []
    settings = [f"--{name.replace('_', '-')}" for name in sorted(kind.agreed_settings)]
    number = [f"--{kind.number}"] if kind.number and not formula else []
    return list(dict.fromkeys([*formula, *settings, *number, *missing_options(kind, ["formula", "target"])]))


def ask(text: str) -> str:
    messages().print(text, end="")
    return input().strip()
