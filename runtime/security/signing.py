"""Signatures of files and folders: bundles of Sigstore, by a key or a certificate, without network.

The package `model-signing` makes and checks them; so do its own command and other tools of its
format. Not here: what the files hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...ir.errors import InputError, IntegrityError, OptionError, first_line
from ...ir.extras import needed


def sign(
    path: Path,
    signature: Path,
    private_key: Path,
    *,
    password: str | None = None,
    certificate: Path | None = None,
    chain: Sequence[Path] = (),
) -> None:
    """Write a signature of a file or a folder; keys and certificates are PEM.

    Args:
        path: of what is signed.
        signature: the bundle that is written.
        private_key: of an elliptic curve; `password` opens it.
        certificate: of the key; those who verify then need its authority alone.
        chain: certificates between it and the authority.

    Raises:
        InputError: the key or the certificate cannot be used.
        BackendError: the package `model-signing` is missing.
    """
    signing = needed("model_signing.signing", "model-signing", "secure")
    try:
        config = signing.Config()
        if certificate is None:
            config.use_elliptic_key_signer(private_key=private_key, password=password)
        elif password is not None:
            raise ValueError("a key with a certificate is used without a password")
        else:
            # An empty chain is none to the library; the certificate again changes nothing.
            by = {"private_key": private_key, "signing_certificate": certificate}
            config.use_certificate_signer(**by, certificate_chain=chain or [certificate])
        config.sign(path, signature)
    except OSError as error:
        raise InputError(f"'{error.filename or private_key}': {error.strerror or error}") from None
    except Exception as error:  # of keys, of libraries below
        wanted = "a private key of an elliptic curve in PEM"
        wanted += "" if certificate is None else f", with '{certificate}' as its own certificate"
        wanted += "" if isinstance(error, AttributeError) else f" ({first_line(error)})"
        said = f"'{private_key}' cannot sign '{path.name}': expected {wanted}"
        raise InputError(said) from None


def verify_signature(
    path: Path,
    signature: Path,
    *,
    public_key: Path | None = None,
    authorities: Sequence[Path] = (),
) -> None:
    """Refuse a file or a folder that the holder of a key did not sign, as a bundle says.

    Args:
        public_key: whose signature it must be, as PEM.
        authorities: without a public key: certificates, one of which must vouch for the signer's.

    Raises:
        IntegrityError: it is not signed so.
        OptionError: neither key nor authority is given.
        BackendError: the package `model-signing` is missing.
    """
    if (public_key is None) is not bool(authorities):
        raise OptionError("a signature is checked by a public key, or by authorities")
    verifying = needed("model_signing.verifying", "model-signing", "secure")
    try:
        config = verifying.Config()
        if public_key is not None:
            config.use_elliptic_key_verifier(public_key=public_key)
        else:
            config.use_certificate_verifier(certificate_chain=authorities)
        config.verify(path, signature)
    except Exception as error:  # of files, of keys, of libraries below
        said = first_line(error)
        raise IntegrityError(f"'{path}' has no valid signature in '{signature}': {said}") from None
