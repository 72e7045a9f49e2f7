# The command lines with every engine that runs without a GPU: docker build -t triton-dsl . &&
# docker run --rm -v "$PWD:/work" triton-dsl check model.tri
FROM python:3.11-slim-bookworm
COPY . /src
RUN python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
      --constraint /src/constraints.txt '/src[torch,onnx,tflite,native,neuromorphic,pictures]' \
    && rm -rf /src \
    && useradd --uid 1000 --create-home triton
USER 1000
WORKDIR /work
ENTRYPOINT ["triton"]
CMD ["--help"]
