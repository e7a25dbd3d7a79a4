"""Programs as JSON: nodes by number, so that what is shared stays shared, whatever the depth."""

from relayvm.ir.json.decode import load_json
from relayvm.ir.json.encode import save_json

__all__ = ["load_json", "save_json"]
