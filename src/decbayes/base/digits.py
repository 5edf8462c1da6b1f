"""Numbers in texts for people."""


def digits(value: float, count: int) -> str:
    """This many significant digits; all digits before the point, with separators, if these are more.

    "g" alone writes 999.6 as 1e+03.
    """
    large = abs(float(f"{value:.{count}g}")) >= 10**count
    return f"{value:,.0f}" if large else f"{value:.{count}g}"
