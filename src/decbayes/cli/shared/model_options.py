"""A model's settings as options of a command, made from its dataclass fields and the parameters of `from_file`."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cyclopts import App, Parameter, Token
from cyclopts.validators import Number

from decbayes.base.arguments import Above
from decbayes.cli.shared.running import WrongArgument, shown_default
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidStructure
from decbayes.files import load
from decbayes.models.core.model import Model
from decbayes.models.core.registry import MODELS, SHIPPED, command_name, model_for
from decbayes.posterior import Posterior

Note = TypeVar("Note")

KEYWORD = inspect.Parameter.KEYWORD_ONLY
SIMPLE = (int, float, str, bool, Path)
NOT_OPTIONS = {"ascent", "agreed", "report"}


@dataclass(frozen=True)
class Setting:
    """A setting of a model: its name, type and default (`MISSING` if required)."""

    name: str
    hint: Any
    default: Any = MISSING


def model_options(kind: type[Model]) -> list[inspect.Parameter]:
    """All settings that fit on a command line; the call gets only those that are given."""
    return options_for([*field_settings(kind), *file_settings(kind)])


def options_before_data(kind: type[Model]) -> list[inspect.Parameter]:
    """Options of a simulated model: its fields and the keyword arguments of `without_data` and `draw`."""
    return options_for([*field_settings(kind), *settings_without_data(kind), *drawing_settings(kind)])


def options_for(settings: Iterable[Setting]) -> list[inspect.Parameter]:
    """One option per name: a field explains the parameter of the same name, which sets the default."""
    by_name: dict[str, Setting] = {}
    for setting in settings:
        by_name[setting.name] = replace(by_name.get(setting.name, setting), default=setting.default)
    return [option(setting) for setting in by_name.values() if is_simple(bare(setting.hint))]


def file_settings(kind: type[Model]) -> list[Setting]:
    """Keyword arguments of `from_file`, and those of its parents if it passes options on to them."""
    settings: dict[str, Setting] = {}
    for parent in (parent for parent in kind.__mro__ if "from_file" in vars(parent)):
        from_file = vars(parent)["from_file"].__func__
        settings = {setting.name: setting for setting in keyword_settings(from_file)} | settings
        parameters = inspect.signature(from_file).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(settings.values())


def settings_without_data(kind: type[Model]) -> list[Setting]:
    """Keyword arguments of `without_data` and its parents; `dimension` only if the model has one."""
    parents = [parent for parent in reversed(kind.__mro__) if "without_data" in vars(parent)]
    settings = [setting for parent in parents for setting in keyword_settings(vars(parent)["without_data"].__func__)]
    has = kind.__dataclass_fields__
    return [setting for setting in settings if setting.name not in Model.from_data or setting.name in has]


def drawing_settings(kind: type[Model]) -> list[Setting]:
    """Keyword arguments of `draw` that have a description."""
    return [setting for setting in keyword_settings(kind.draw) if any(notes(setting.hint, str))]


def simulated_model(
    kind: type[Model], settings: Mapping[str, Any], like: Path | None
) -> tuple[Model, Posterior | None, dict[str, Any]]:
    """The model that options or a posterior file describe, that posterior, and the keyword arguments of `draw`."""
    given = {name: value for name, value in settings.items() if value is not None}
    drawing = {setting.name: given.pop(setting.name, setting.default) for setting in drawing_settings(kind)}
    if like is None:
        return model_from_settings(kind, given), None, drawing
    posterior = load(like)
    model = model_for(posterior.structure)
    if type(model) is not kind:
        raise WrongArgument(f"{like} is a posterior of {type(model).__name__}, not of {kind.__name__}.")
    if given:
        names = ", ".join(map(as_option, given))
        raise WrongArgument(f"{names} and --like {like} exclude each other: the settings are those of that file.")
    return model, posterior, drawing


def model_from_settings(kind: type[Model], settings: Mapping[str, Any]) -> Model:
    """The model to simulate when there is no posterior to imitate."""
    known = {setting.name: setting for setting in (*field_settings(kind), *settings_without_data(kind))}
    if needed := [name for name, setting in known.items() if setting.default is MISSING and name not in settings]:
        raise WrongArgument(f"Give {' and '.join(map(as_option, needed))}, or a posterior of such data: --like FILE.")
    try:
        model = kind.without_data(**settings)
        _ = model.structure
    except (TypeError, ValueError, InvalidStructure) as error:
        text = str(error).removesuffix(".")
        raise WrongArgument(f"{text}. Or give a posterior of such data: --like FILE.") from None
    return model


def field_settings(kind: type[Model]) -> list[Setting]:
    hints = get_type_hints(kind, include_extras=True)
    left_out = NOT_OPTIONS | kind.from_data
    return [
        Setting(field.name, hints[field.name], field.default) for field in fields(kind) if field.name not in left_out
    ]


def keyword_settings(function: Callable[..., Any]) -> list[Setting]:
    hints = get_type_hints(function, include_extras=True)
    named = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind is KEYWORD]
    return [
        Setting(
            parameter.name,
            hints[parameter.name],
            MISSING if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in named
        if parameter.name not in NOT_OPTIONS
    ]


def option(setting: Setting) -> inspect.Parameter:
    default = setting.default
    parameter = Parameter(
        help=next(notes(setting.hint, str), ""),
        converter=numbers if unannotated(setting.hint) is Any else None,
        validator=[partial(check_above, above.bound) for above in notes(setting.hint, Above)],
        show_default=(lambda _: shown_default(default)) if default is not MISSING else False,
    )
    # No option is required here: with --like all are known.
    annotation: Any = Annotated[bare(setting.hint) | None, parameter]
    return inspect.Parameter(setting.name, KEYWORD, default=None, annotation=annotation)


def check_above(bound: float, kind: Any, value: Any) -> None:
    """Refuse numbers that are too small; words such as "auto" pass."""
    if not isinstance(value, str):
        for number in value if isinstance(value, tuple) else (value,):
            Number(gt=bound)(kind, number)


def numbers(kind: Any, tokens: Sequence[Token]) -> float | tuple[float, ...]:
    """One number, or several with commas between them: one per column."""
    values = tuple(float(part) for part in tokens[0].value.split(","))
    return values if len(values) > 1 else values[0]


def missing_options(kind: type[Model], given: Iterable[str]) -> list[str]:
    """The options that are required for a new model but were not given."""
    settings = {setting.name: setting for setting in (*field_settings(kind), *file_settings(kind))}
    needed = [name for name, setting in settings.items() if setting.default is MISSING and name not in given]
    return [as_option(name) for name in needed]


def as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def with_posteriors(kind: type[Model], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `from_file`, with posteriors loaded from the files given for them."""
    read = {setting.name for setting in file_settings(kind) if Posterior in get_args(unannotated(setting.hint))}
    return {name: load(value) if name in read and value is not None else value for name, value in settings.items()}


def unannotated(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def bare(hint: Any) -> Any:
    """The type on a command line: without annotations; a number for "number or array", a file for a posterior."""
    plain = unannotated(hint)
    if Posterior in get_args(plain):
        return Path | None
    if Any in get_args(plain):
        return Union[tuple(part for part in get_args(plain) if part is not Any)]  # noqa: UP007
    return float if plain is Any else plain


def is_simple(hint: Any) -> bool:
    parts = get_args(hint)
    if parts and get_origin(hint) is not tuple:
        return all(part is type(None) or isinstance(part, str) or is_simple(part) for part in parts)
    return hint in SIMPLE


def notes(hint: Any, kind: type[Note]) -> Iterator[Note]:
    """The annotations of one kind, as in Annotated[int, "How many clusters.", Above(0)]."""
    annotations = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return (note for note in annotations if isinstance(note, kind))


def about(kind: type[Model]) -> str:
    return kind.about or (inspect.getdoc(kind) or kind.__name__).splitlines()[0]


def add_model_commands(
    app: App, module: str, command: Callable[[type[Model]], Callable[..., None]]
) -> Callable[[str], Callable[..., None]]:
    """Add a command for each model, and return the `__getattr__` that makes these commands on first use.

    A command then loads only its own model. `command` makes the command of a kind of model.
    """
    for name, (_, words) in SHIPPED.items():
        app.command(f"{module}:{name}", name=words)
    for name in MODELS:
        if name not in SHIPPED:
            try:
                kind = MODELS[name]
            except (ImportError, AttributeError, TypeError) as error:
                messages().print(f"The model {name} cannot be loaded: {error}")
            else:
                app.command(command(kind), name=command_name(kind))

    def make_command(name: str) -> Callable[..., None]:
        if name not in SHIPPED:
            raise AttributeError(f"{module} has no {name!r}.")
        return command(MODELS[name])

    return make_command
