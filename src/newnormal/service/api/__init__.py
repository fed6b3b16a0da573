"""The service over HTTP: `newnormal.service.api.app.make_app`. Needs the extra ``serve``."""
