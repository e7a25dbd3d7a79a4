"""TVM's namespaces outside of `relay`: `relayvm.transform`, `relayvm.testing` and so on."""
