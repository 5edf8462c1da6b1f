"""A model's settings as options of a command, from its dataclass fields and the parameters of its `from_file`."""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cyclopts import Parameter
from cyclopts.validators import Number

from decbayes.arguments import Above
from decbayes.cli.shared.terminal import messages
from decbayes.models.core.model import Model
from decbayes.models.core.registry import MODELS

Said = TypeVar("Said")

KEYWORD = inspect.Parameter.KEYWORD_ONLY
SIMPLE = (int, float, str, bool, Path)
NOT_OPTIONS = {"ascent", "agreed", "report"}


@dataclass(frozen=True)
class Setting:
    """A name, what may be given, and what holds otherwise; `MISSING` where something must be given."""

    name: str
    hint: Any
    default: Any = MISSING


def model_options(kind: type[Model]) -> list[inspect.Parameter]:
    """All settings that can be written on a command line; one that is not given is left out of the call."""
    settings = {setting.name: setting for setting in field_settings(kind)}
    for setting in reading_settings(kind):
        # What the field says of itself holds for the parameter of the same name.
        known = settings.get(setting.name, setting)
        settings[setting.name] = replace(known, default=setting.default)
    return [option(setting) for setting in settings.values() if is_simple(bare(setting.hint))]


def field_settings(kind: type[Model]) -> list[Setting]:
    hints = get_type_hints(kind, include_extras=True)
    left_out = NOT_OPTIONS | kind.from_data
    return [Setting(each.name, hints[each.name], each.default) for each in fields(kind) if each.name not in left_out]


def reading_settings(kind: type[Model]) -> list[Setting]:
    """What `from_file` takes by name."""
    hints = get_type_hints(kind.from_file, include_extras=True)
    named = [each for each in inspect.signature(kind.from_file).parameters.values() if each.kind is KEYWORD]
    return [Setting(each.name, hints[each.name], each.default) for each in named if each.name not in NOT_OPTIONS]


def option(setting: Setting) -> inspect.Parameter:
    known = setting.default
    parameter = Parameter(
        help=next(said(setting.hint, str), ""),
        validator=[partial(check_above, above.bound) for above in said(setting.hint, Above)],
        show_default=(lambda _: str(known)) if known not in (None, "", MISSING) else False,
        negative="",
    )
    # Nothing is required here: with --like everything is known.
    annotation: Any = Annotated[bare(setting.hint) | None, parameter]
    return inspect.Parameter(setting.name, KEYWORD, default=None, annotation=annotation)


def check_above(bound: float, kind: Any, value: Any) -> None:
    """Refuse numbers that are too small; a word such as "auto" is none."""
    if not isinstance(value, str):
        Number(gt=bound)(kind, value)


def lacking(kind: type[Model], given: Iterable[str]) -> list[str]:
    """The settings that a new model cannot do without, as options."""
    settings = {setting.name: setting for setting in (*field_settings(kind), *reading_settings(kind))}
    needed = [name for name, setting in settings.items() if setting.default is MISSING and name not in given]
    return [as_option(name) for name in needed]


def as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def bare(hint: Any) -> Any:
    """The type without what it says of itself; what may be a number or an array is a number on a command line."""
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if Any in get_args(plain):
        return Union[tuple(part for part in get_args(plain) if part is not Any)]  # noqa: UP007
    return float if plain is Any else plain


def is_simple(hint: Any) -> bool:
    parts = get_args(hint)
    if parts and get_origin(hint) is not tuple:
        return all(part is type(None) or isinstance(part, str) or is_simple(part) for part in parts)
    return hint in SIMPLE


def said(hint: Any, kind: type[Said]) -> Iterator[Said]:
    """What an annotation says of a setting, such as Annotated[int, "How many clusters.", Above(0)]."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return (note for note in notes if isinstance(note, kind))


def command_name(kind: type[Model]) -> str:
    return kind.command or kind.__name__.lower()


def known_models() -> dict[str, type[Model]]:
    """All models that can be loaded; a message names the others."""
    known = {}
    for name in MODELS:
        try:
            known[name] = MODELS[name]
        except (ImportError, AttributeError, TypeError) as error:
            messages().print(f"The model {name} cannot be loaded: {error}")
    return known
