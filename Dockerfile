# Serves the demo run: two graphs of the world, aligned when the image is built (docs/containers.md).
#   docker build -t decentrl .  &&  docker run -p 127.0.0.1:8080:8080 decentrl
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The extra index has torch's builds for CPUs; pip prefers 2.13.0+cpu to 2.13.0.
RUN python -m venv /opt/decentrl \
 && /opt/decentrl/bin/pip install -c constraints.txt \
      --extra-index-url https://download.pytorch.org/whl/cpu '.[serve,rdf,text]'

FROM python:3.11.14-slim-bookworm
ENV PATH=/opt/decentrl/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin decentrl \
 && install -d -o decentrl -g decentrl /runs
COPY --from=build /opt/decentrl /opt/decentrl
USER 10001
WORKDIR /runs
RUN decentrl align --dataset world -o /runs/demo
EXPOSE 8080
# Python, as there is no curl in the image.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["decentrl"]
# It has to listen beyond the container; nothing can be changed without --write.
CMD ["serve", "/runs/demo", "--host", "0.0.0.0", "--port", "8080"]
