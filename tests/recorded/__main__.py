"""Write down the results of today: `python tests/recorded`, after a change that was to change them."""

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from plain import differing, flat
from scenarios import SCENARIOS, result_of

RESULTS = Path(__file__).with_name("results.json")

if __name__ == "__main__":
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    now = {scenario: dict(flat(result_of(scenario))) for scenario in SCENARIOS}
    for scenario, found in now.items():
        for name in differing(before.get(scenario, {}), found):
            print(f"{scenario}: {name}: {before[scenario][name]} → {found.get(name)}")
    lines = (f"{json.dumps(scenario)}: {json.dumps(found, ensure_ascii=False)}" for scenario, found in now.items())
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
