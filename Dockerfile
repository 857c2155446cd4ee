# One image for a Flower SuperNode or SuperLink, or for a peer:
#   docker build -t entrofed .
#   docker run entrofed flower-supernode --superlink host:9092 --node-config "partition-id=0 num-partitions=2" ...
#   docker run -v "$PWD/clinic:/home/app/peer" entrofed entrofed peer run /home/app/peer
FROM python:3.12-slim
RUN useradd --create-home --uid 1000 app
WORKDIR /home/app
COPY pyproject.toml README.md LICENSE ./source/
COPY src ./source/src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "./source[flower,peer,dp]" \
    && rm -rf ./source
USER app
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 ENTROFED_DATA=/home/app/data
CMD ["entrofed", "doctor"]
