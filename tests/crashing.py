"""Children for tests of what runs children: they are told how to end by the name of a file."""

import json
import os
import time

from omnidraft.processes.children import asked

if __name__ == "__main__":
    request = asked()
    wanted = os.path.basename(request["path"]).removesuffix(".gguf")
    if wanted == "abort":
        os.abort()
    if wanted == "hang":
        time.sleep(600)
    if wanted == "memory":
        held = [bytes(1 << 20) for _ in range(2000)]
    print(json.dumps("is odd." if wanted == "odd" else ""), flush=True)
