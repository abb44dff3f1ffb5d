# The same as landlock.pl, for a machine without perl.
import ctypes
import os
import signal
import struct
import sys

prctl, ports, *program = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)


def call(*words):
    return libc.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words))


def refuse(step):
    print(f"{step}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
    sys.exit(126)


abi = call(444, 0, 0, 1)
if abi < 0:
    refuse("landlock_create_ruleset")
if abi < 4:
    print(f"the kernel's Landlock has no rules for TCP (ABI {abi}, 4 is needed)", file=sys.stderr)
    sys.exit(126)
handled = struct.pack("QQ", 0, 2) if abi < 6 else struct.pack("QQQ", 0, 2, 3)
ruleset = call(444, handled, len(handled), 0)
if ruleset < 0:
    refuse("landlock_create_ruleset")
for port in ports.split(","):
    if call(445, ruleset, 2, struct.pack("QQ", 2, int(port)), 0) != 0:
        refuse("landlock_add_rule")
if call(int(prctl), 38, 1, 0, 0, 0) != 0:
    refuse("prctl")
if call(446, ruleset, 0) != 0:
    refuse("landlock_restrict_self")

if not program:
    print(abi)
    sys.exit(0)
os.environb.pop(b"LC_ALL", None)
for name in [name for name in os.environb if name.startswith(b"SAFEMIGRATE_KEPT_")]:
    os.environb[name[len(b"SAFEMIGRATE_KEPT_") :]] = os.environb.pop(name)
# Python ignores these, and the program would inherit that.
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
words = [os.fsencode(word) for word in program]
# As a shell would, it runs a script without a first line for its interpreter.
libc.execvp(words[0], (ctypes.c_char_p * (len(words) + 1))(*words, None))
print(f"{program[0]}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
sys.exit(127)
