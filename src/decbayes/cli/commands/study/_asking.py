"""`decbayes study new` on a terminal: a few questions, whose answers are options."""

from collections.abc import Sequence

from decbayes.cli.shared.model_options import lacking
from decbayes.cli.shared.terminal import messages
from decbayes.models.core.registry import SHIPPED, kind_called

# What people want to know, and the model that answers it.
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


def asked_protocol(model: str, sites: str, question: str, words: Sequence[str]) -> tuple[str, str, str, list[str]]:
    """The model, the sites, the question and the model's options, as somebody answers."""
    question = question or answer("What does the study ask? ")
    if not model:
        for number, (about, name) in enumerate(KINDS.items(), start=1):
            messages().print(f"  {number}  {about} ({name})")
        model = chosen(answer("What should be found? Number or name: "))
    asked = list(words)
    for option in wanted(model):
        if not any(word == option or word.startswith(f"{option}=") for word in asked):
            asked += [option, answer(f"{option} {EXAMPLES.get(option, '')}: ")]
    sites = sites or answer("Names of the sites, separated by commas: ")
    return model, sites, question, asked


EXAMPLES = {
    "--formula": "(as in 'died ~ age + ward', or 'Surv(days, died) ~ age')",
    "--components": "(number of groups)",
    "--topics": "(number of topics)",
}


def chosen(text: str) -> str:
    names = [*KINDS.values()]
    return names[int(text) - 1] if text.isdecimal() and 0 < int(text) <= len(names) else text.strip()


def wanted(model: str) -> list[str]:
    """The options without which a model says nothing."""
    if model not in {name for _, name in SHIPPED.values()}:
        return []
    kind = kind_called(model)
    formula = ["--formula"] if model.endswith("regression") else []
    settings = [f"--{name.replace('_', '-')}" for name in sorted(kind.agreed_settings)]
    number = [f"--{kind.number}"] if kind.number and not formula else []
    return list(dict.fromkeys([*formula, *settings, *number, *lacking(kind, ["formula", "target"])]))


def answer(text: str) -> str:
    messages().print(text, end="")
    return input().strip()
