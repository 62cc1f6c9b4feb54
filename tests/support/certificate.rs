//! Certificates of the tests' own.

use rcgen::{CertificateParams, KeyPair, SerialNumber, SignatureAlgorithm, date_time_ymd};

/// A certificate, signed by its own key.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The certificate and the key, as PEM.
    pub(crate) crt: String,
    pub(crate) key: String,
    /// The certificate and the key, as DER.
    pub(crate) der: Vec<u8>,
    pub(crate) key_der: Vec<u8>,
}

impl Pair {
    /// With this serial number and kind of key, valid for a century.
    pub(crate) fn new(serial: &[u8], kind: &'static SignatureAlgorithm) -> Self {
        Self::until(serial, kind, 2100)
    }

    /// The same, until the beginning of a year.
    pub(crate) fn until(serial: &[u8], kind: &'static SignatureAlgorithm, year: i32) -> Self {
        let key = KeyPair::generate_for(kind).unwrap();
        let mut params = CertificateParams::new(vec!["web.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(serial));
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            crt: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        }
    }

    /// An ECDSA certificate with this serial number.
    pub(crate) fn ecdsa(serial: &[u8]) -> Self {
        Self::new(serial, &rcgen::PKCS_ECDSA_P256_SHA256)
    }
}
