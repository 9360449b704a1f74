"""The room artefact."""
