# An image with everything that perfrunner and its engine need, installed; running it runs the quickstart.
#   docker build -t perfrunner .
#   docker run --rm -v "$PWD/results:/results" -v perfrunner-cache:/cache perfrunner
#   docker run --rm perfrunner perfrunner --help
# docs/how-to/containers.md says what is kept where, and how a container measures other hosts.
# The digest is that of the index for all platforms. docker-library/repo-info on GitHub records the newest one
# (repos/debian/remote/bookworm-slim.md).
FROM debian:bookworm-slim@sha256:abd67ffcfa541b485a3dff59865ab629aa048a6c613e639d36e7456b0b229241

COPY scripts/lib /opt/perfrunner/scripts/lib
RUN bash -c 'set -euo pipefail; . /opt/perfrunner/scripts/lib/install.sh; need_packages python engine cargo ssh' && \
    rm -rf /var/lib/apt/lists/*

COPY . /opt/perfrunner
WORKDIR /opt/perfrunner
RUN bash -c 'set -euo pipefail; . /opt/perfrunner/scripts/lib/install.sh; need_python base' && \
    # The modules are compiled here, because the user of the image cannot write to .venv.
    .venv/bin/python -m compileall -q .venv/lib perfrunner

# Whoever owns the mounted /results runs it (scripts/lib/as-owner), so the home directory and the cache are anybody's.
RUN useradd --create-home perfrunner && mkdir /results /cache && chown perfrunner /results && \
    chmod 1777 /home/perfrunner /cache && \
    # ssh looks for its files in the home directory of the user database, also for root.
    sed -i 's,^\(root:.*\):/root:,\1:/home/perfrunner:,' /etc/passwd
ENV PATH=/opt/perfrunner/.venv/bin:$PATH HOME=/home/perfrunner USER=perfrunner PERFRUNNER_CACHE=/cache/perfrunner
VOLUME ["/results", "/cache"]
ENTRYPOINT ["/opt/perfrunner/scripts/lib/as-owner"]
CMD ["./scripts/quickstart", "--out", "/results"]
