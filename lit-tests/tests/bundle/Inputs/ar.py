# ar.py ARCHIVE NAME=FILE...: an archive with members of any name, \x escapes in it read. With NAME= alone it is a thin one.
import sys

output, *members = sys.argv[1:]
members = [member.split("=") for member in members]
members = [(name.encode().decode("unicode_escape").encode(), file) for name, file in members]


def header(name, size):
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}`\n".encode()


if all(not file for _, file in members):
    names = b"".join(name + b"/\n" for name, _ in members)
    names += b"\n" * (len(names) % 2)
    archive = b"!<thin>\n" + header("//", len(names)) + names
    for name, _ in members:
        archive += header(f"/{names.index(name)}", 8)
else:
    archive = b"!<arch>\n"
    for name, file in members:
        # BSD's way to name a member: in front of it.
        data = name + open(file, "rb").read()
        archive += header(f"#1/{len(name)}", len(data)) + data + b"\n" * (len(data) % 2)
open(output, "wb").write(archive)
