"""Logins and TLS of both client libraries: JAAS, key stores, Kerberos, OAuth, MSK."""
