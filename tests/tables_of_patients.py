"""Tables of patients as sites hold them, and CSV files of them."""

import csv


def write_table(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def patients(rng, size, ward=("heart", "bone")):
    """Days in hospital, by age and ward."""
    age, wards = rng.normal(60, 10, size).round(1), rng.choice(ward, size)
    days = 5 + 0.1 * (age - 60) + 2.0 * (wards == "heart") + rng.normal(0, 1, size)
    return {"age": age, "ward": wards, "days": days.round(3)}
