"""What is in the image, as a CycloneDX 1.6 document; `python -m sbom` runs as the last step of a build (docker/layer)."""
