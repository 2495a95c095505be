//! What TLS connections are made with: certificates to trust and to show, read from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::fault::{Fault, Result};

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub cacert: Option<PathBuf>,
    pub cacertdir: Option<PathBuf>,
    /// Trust anybody.
    pub insecure: bool,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Where systems keep the certificates that everybody trusts.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Reads the files.
pub fn config(files: &Files) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::new(format!("TLS cannot begin: {error}")))?;
    let builder = if files.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(roots(files)?)
    };
    let config = match (&files.cert, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                Fault::new(format!("--key {}: {error}: it must be a PEM file", key.display()))
            })?;
            let config = builder.with_client_auth_cert(chain, key);
            config
                .map_err(|error| Fault::new(format!("--cert {} does not serve: {error}", cert.display())))?
        }
        _ => return Err(Fault::new("--cert and --key go together: give both or neither")),
    };
    Ok(Arc::new(config))
}

fn roots(files: &Files) -> Result<RootCertStore> {
    let mut paths: Vec<PathBuf> = files.cacert.iter().cloned().collect();
    if let Some(folder) = &files.cacertdir {
        let entries = std::fs::read_dir(folder)
            .map_err(|error| Fault::new(format!("--cacertdir {}: {error}", folder.display())))?;
        paths.extend(
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_file()),
        );
    }
    if paths.is_empty() {
        paths.extend(SYSTEM.iter().map(PathBuf::from).find(|path| path.exists()));
    }
    let mut roots = RootCertStore::empty();
    for path in &paths {
        for certificate in certificates(path)? {
            // A bundle may have one that is of no use to anybody.
            let _ = roots.add(certificate);
        }
    }
    if roots.is_empty() {
        return Err(Fault::new(
            "no certificate to trust was found: give --cacert FILE, or --insecure to trust anybody",
        ));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let fault = |error: &dyn std::fmt::Display| {
        Fault::new(format!("{}: {error}: it must be a PEM file of certificates", path.display()))
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| fault(&error))?;
    read.collect::<std::result::Result<_, _>>().map_err(|error| fault(&error))
}

/// Trusts any certificate, though not a handshake that was not signed with it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
