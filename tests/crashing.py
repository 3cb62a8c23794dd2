"""Children for tests of what runs children: they are told how to end by the name of a file."""

import json
import os
import signal
import time

from omnidraft.processes.children import asked

if __name__ == "__main__":
    request = asked()
    wanted = os.path.basename(request["path"]).removesuffix(".gguf")
    if wanted == "abort":
        os.abort()
    if wanted == "hang":
        time.sleep(600)
    if wanted in ("work", "spin"):
        begun = time.process_time()
        while wanted == "spin" or time.process_time() - begun < 1.0:
            pass
    if wanted == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if wanted == "memory":
        held = [bytes(1 << 20) for _ in range(2000)]
    print(json.dumps("is odd." if wanted == "odd" else ""), flush=True)
