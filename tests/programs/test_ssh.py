#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ssh, scp and rsync copy to an sshd of the test's own, with its own keys, as the test's user; rsync also to
and from its daemon. While its peer is slow ssh reads on, and moves all that it has read, up to 2 MB, for each
piece that it sends: it is compared with itself on a slow line."""
import os
import pwd
import shutil

import kit

SSHD = """
ListenAddress 127.0.0.1
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/user_key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
LogLevel ERROR
Subsystem sftp internal-sftp
# whatever a user's shell does when it starts can take longer than the copy
SetEnv HOME={directory}
"""
SSH = """
HostName 127.0.0.1
User {user}
IdentityFile {directory}/user_key
IdentityAgent none
IdentitiesOnly yes
UserKnownHostsFile {directory}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking no
BatchMode yes
LogLevel ERROR
"""
# sshd insists on this directory when it runs as root; where it is missing, sshd sees one of its own
PRIVSEP_DIRECTORY = "/run/sshd"
WITH_OWN_RUN = ["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs none /run && mkdir -m 0755 {PRIVSEP_DIRECTORY} && exec "$0" "$@"']

RSYNCD = """
use chroot = no
{user}
lock file = {directory}/lock
[here]
path = {directory}
read only = no
"""


def sshd(t, limited=False):
    """An sshd and what a client needs to reach it; its port."""
    port = kit.free_port()
    for key in ("host_key", "user_key"):
        t.help(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", t.path(key)])
    user = pwd.getpwuid(os.geteuid()).pw_name
    for name, text in (("sshd_config", SSHD), ("ssh_config", SSH)):
        with open(t.path(name), "w", encoding="utf-8") as f:
            f.write(text.format(port=port, directory=t.directory, user=user))
    own_run = WITH_OWN_RUN if kit.is_root() and not os.path.isdir(PRIVSEP_DIRECTORY) else []
    t.serve([*own_run, shutil.which("sshd"), "-D", "-e", "-f", t.path("sshd_config")], port, limited)
    return port


@kit.case("ssh", "sshd", "ssh-keygen", slow_line=True)
def ssh_sends_its_input(t):
    port = t.relay(sshd(t))
    with open(t.file, "rb") as content:
        t.run(["ssh", "-F", t.path("ssh_config"), "-p", port, "there", f"cat > {t.path('got')}"],
              stdin=content)
    t.same_file("got")


@kit.case("ssh", "sshd", "ssh-keygen", slow_line=True)
def sshd_sends_what_is_asked_for(t):
    port = t.relay(sshd(t, limited=True), "down")
    t.same(t.help(["ssh", "-F", t.path("ssh_config"), "-p", port, "there", f"cat {t.file}"]))


@kit.case("scp", "sshd", "ssh-keygen", slow_line=True)
def scp_copies_a_file(t):
    port = t.relay(sshd(t))
    t.run(["scp", "-q", "-F", t.path("ssh_config"), "-P", port, t.file, f"there:{t.path('got')}"])
    t.same_file("got")


@kit.case("rsync", "ssh", "sshd", "ssh-keygen", slow_line=True)
def rsync_copies_a_file_over_ssh(t):
    port = t.relay(sshd(t))
    t.run(["rsync", "-W", "-e", f"ssh -F {t.path('ssh_config')} -p {port}", t.file, f"there:{t.path('got')}"])
    t.same_file("got")


def rsyncd(t, limited=False):
    port = kit.free_port()
    with open(t.path("rsyncd.conf"), "w", encoding="utf-8") as f:
        f.write(RSYNCD.format(directory=t.directory, user="uid = 0\ngid = 0" if kit.is_root() else ""))
    t.serve(["rsync", "--daemon", "--no-detach", "--config", t.path("rsyncd.conf"), "--address", "127.0.0.1",
             "--port", port], port, limited)
    return port


@kit.case("rsync")
def rsync_copies_a_file_to_a_daemon(t):
    port = t.relay(rsyncd(t))
    t.run(["rsync", "-W", t.file, f"rsync://127.0.0.1:{port}/here/got"])
    t.same_file("got")


@kit.case("rsync")
def rsync_daemon_sends_a_file(t):
    port = t.relay(rsyncd(t, limited=True), "down")
    t.help(["rsync", "-W", f"rsync://127.0.0.1:{port}/here/upload", t.path("got")])
    t.same_file("got")


kit.main()
