#!/usr/bin/env python3
"""Asks other servers the requests of rfc9112_cases.txt and prints the file with their columns as they answer.

Usage: rfc9112_others.py NGINX_PORT ENVOY_PORT. nginx is a proxy in front of a server that answers 200 (client_max_body_size
4m); Envoy has its buffer filter (4 MiB) and answers 200 by itself.
"""

import concurrent.futures
import pathlib
import re
import socket
import sys

CASES = pathlib.Path(__file__).with_name("rfc9112_cases.txt")


def unwritten(text):
    """The bytes that a line of the file stands for."""
    text = re.sub(r"<(\d+)\*([^>]*)>", lambda match: match[2] * int(match[1]), text)
    return text.encode("latin1").decode("unicode_escape").encode("latin1")


def statuses(port, request):
    """Those of the answers that come within two seconds of one another."""
    answers, is_closed = b"", False
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(2)
        try:
            client.sendall(request)
            while chunk := client.recv(65536):
                answers += chunk
            is_closed = True
        except TimeoutError:
            pass
        except OSError:
            is_closed = True
    found = re.findall(rb"HTTP/1\.[01] (\d{3}) ", answers)
    return b" ".join(found).decode() or ("closed" if is_closed else "waits")


def main():
    ports = [int(port) for port in sys.argv[1:]]
    lines = CASES.read_text(encoding="ascii").splitlines()
    cases = [line.split(" | ", 4) for line in lines if not line.startswith("#")]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        columns = [list(pool.map(lambda case, to=port: statuses(to, unwritten(case[4])), cases)) for port in ports]
    print("\n".join(line for line in lines if line.startswith("#")))
    for case, *found in zip(cases, *columns):
        print(" | ".join([case[0], case[1], *found, case[4]]))


if __name__ == "__main__":
    main()
