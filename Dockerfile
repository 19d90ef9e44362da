# An image with everything that perfrunner and its engine need, installed; running it runs the quickstart.
#   docker build -t perfrunner .
#   docker run --rm -v "$PWD/results:/results" -v perfrunner-cache:/cache perfrunner
#   docker run --rm perfrunner perfrunner --help
# docs/containers.md says what is kept where, and how a container measures other hosts.
FROM debian:bookworm-slim

COPY scripts/lib /opt/perfrunner/scripts/lib
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv openssh-client && \
    bash -c 'set -euo pipefail; . /opt/perfrunner/scripts/lib/install.sh; need_engine_packages; need_cargo' && \
    rm -rf /var/lib/apt/lists/*

COPY . /opt/perfrunner
RUN bash -c 'set -euo pipefail; . /opt/perfrunner/scripts/lib/install.sh; need_python ""'

# Whoever owns the mounted /results runs it (scripts/lib/as-owner), so the home directory and the cache are anybody's.
RUN useradd --create-home perfrunner && mkdir /results /cache && chown perfrunner /results && \
    chmod 1777 /home/perfrunner /cache
ENV PATH=/opt/perfrunner/.venv/bin:$PATH HOME=/home/perfrunner USER=perfrunner PERFRUNNER_CACHE=/cache/perfrunner
WORKDIR /opt/perfrunner
VOLUME ["/results", "/cache"]
ENTRYPOINT ["/opt/perfrunner/scripts/lib/as-owner"]
CMD ["./scripts/quickstart", "--out", "/results"]
