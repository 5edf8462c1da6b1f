"""A table of patients, for what must not leave a site."""

import numpy as np


def patients(rng, rows=200):
    """A table of patients, one of whom has a disease that nobody else has."""
    age = rng.integers(20, 90, rows)
    disease = rng.choice(["flu", "asthma", "copd", "gout"], rows, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    disease[17] = "porphyria"
    return {
        "age": age,
        "sex": rng.choice(["f", "m"], rows),
        "bmi": rng.normal(26, 4, rows).round(1),
        "smoker": rng.choice(["yes", "no"], rows),
        "disease": disease,
        "cost": (1000 + 20 * age + rng.normal(0, 300, rows)).round(2),
        "died": np.where(rng.random(rows) < 0.3, "yes", "no"),
    }


def write_csv(path, table):
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
