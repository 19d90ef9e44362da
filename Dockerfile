# An image with everything that the quickstart needs, built and installed; running it runs the quickstart.
#   docker build -t perfrunner .
#   docker run --rm -v "$PWD/results:/results" perfrunner
#   docker run --rm perfrunner perfrunner --help
FROM debian:bookworm-slim

COPY scripts/lib /opt/perfrunner/scripts/lib
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv && \
    bash -c 'set -euo pipefail; . /opt/perfrunner/scripts/lib/install.sh; need_engine_packages; need_cargo' && \
    rm -rf /var/lib/apt/lists/*

COPY . /opt/perfrunner
WORKDIR /opt/perfrunner
RUN bash -c 'set -euo pipefail; . scripts/lib/install.sh; need_python ""'

RUN useradd --create-home perfrunner && mkdir /results && chown perfrunner /results && chown -R perfrunner /opt/perfrunner
USER perfrunner
ENV PATH=/opt/perfrunner/.venv/bin:$PATH
VOLUME /results
CMD ["./scripts/quickstart", "--out", "/results"]
