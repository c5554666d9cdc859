# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes, in this folder, what a client of NATS may be known by, with the program openssl for the keys.

    nkey, nkey.seed               a user's public key, and the file with its seed
    relay.creds, operator.conf    a user of an account, and what a server has to know of that
    ca.pem, other.pem             two authorities
    server.pem, server.key        certificate and key, by the first one, of a server at 127.0.0.1; elsewhere.pem is of another
                                  address, and client.pem of a client
"""

import base64
import json
import subprocess

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3
KEY_HEAD = bytes.fromhex("302e020100300506032b657004220420")  # of an Ed25519 key in PKCS 8


def openssl(*arguments, data=None):
    return subprocess.run(["openssl", *arguments], input=data, check=True, capture_output=True).stdout


def encode(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")


def url_encode(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    def __init__(self, kind, name):
        self.file = name + ".der"
        openssl("genpkey", "-algorithm", "ed25519", "-outform", "DER", "-out", self.file)
        public = openssl("pkey", "-inform", "DER", "-in", self.file, "-pubout", "-outform", "DER")[-32:]
        with open(self.file, "rb") as file:
            secret = file.read()[len(KEY_HEAD):]
        self.public = encode(bytes([kind]) + public)
        self.seed = encode(bytes([SEED | kind >> 5, (kind & 31) << 3]) + secret)

    def sign(self, name, subject, claims):
        """A JWT of somebody, by this one."""
        head = url_encode(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
        body = url_encode(json.dumps({"jti": name, "iat": 1, "iss": self.public, "name": name, "sub": subject.public,
                                      "nats": {**claims, "version": 2}}).encode())
        with open("signed", "wb") as file:
            file.write(f"{head}.{body}".encode())
        signature = openssl("pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", self.file, "-in", "signed")
        return f"{head}.{body}.{url_encode(signature)}"


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def make_keys():
    operator, account, user = Key(OPERATOR, "operator"), Key(ACCOUNT, "account"), Key(USER, "user")
    system = Key(ACCOUNT, "system")
    limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    streams = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
    plain = {"type": "account", "limits": limits}
    storing = {"type": "account", "limits": {**limits, **streams}}
    users = {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
    jwt = account.sign("relay", user, users)
    write("nkey", user.public)
    write("nkey.seed", user.seed + "\n")
    write("relay.creds", f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
                         f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
    write("operator.conf", f"""\
operator: {operator.sign("operator", operator, {"type": "operator"})}
resolver: MEMORY
system_account: {system.public}
resolver_preload: {{
    {account.public}: {operator.sign("account", account, storing)}
    {system.public}: {operator.sign("system", system, plain)}
}}
""")


def make_certificates():
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in "ca", "other":
        openssl("req", "-x509", *curve, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name, host in ("server", "IP:127.0.0.1"), ("client", "DNS:client"), ("elsewhere", "DNS:elsewhere"):
        openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        write("names", f"subjectAltName={host}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "names", "-out", f"{name}.pem")


make_keys()
make_certificates()
