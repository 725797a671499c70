"""A server for tests."""

import os
import re
import subprocess
import threading


class Server:
    """``sullae serve`` on free ports; of SULLAE_SERVER, where the package under test has no serving."""

    def __init__(self, repository, *flags):
        program = os.environ.get("SULLAE_SERVER", "sullae")
        command = [program, "serve", str(repository), "--http-port", "0", "--grpc-port", "0", "--repository-poll-secs", "0.2"]
        self._process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = ""
        for line in self._process.stdout:
            self.said += line
            found = re.search(r"serving .* at http://[^:]+:(\d+)/ and gRPC at [^:]+:(\d+)", line)
            if found:
                self.address, self.grpc_address = (f"127.0.0.1:{port}" for port in found.groups())
                break
        else:
            raise AssertionError(self.said)
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        assert self._process.wait(60) == 0
