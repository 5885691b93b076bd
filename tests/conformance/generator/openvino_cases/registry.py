from ..cases import Suite

suite = Suite()
