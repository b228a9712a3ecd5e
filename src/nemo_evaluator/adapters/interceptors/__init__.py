"""The built-in interceptors, one file each; each file's class is called ``Interceptor``."""
