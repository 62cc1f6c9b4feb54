//! Reads the fields of a certificate that the checks need, from its DER. Pure.
//!
//! It verifies nothing, because trust is a matter of the application. So it also reads certificates
//! that verifiers reject, such as version 1 and those with unknown critical extensions.

use std::time::Duration;

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Reader as _, SliceReader, Tag, TagNumber, Tagged as _};

use podnudge_core::clock::UnixTime;

/// 2.5.29.19, the basic constraints: they mark the certificate of a CA.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
/// The tag of the extensions in a certificate.
const EXTENSIONS: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(3) };

/// The fields of a certificate that the checks need. Names and the key are DER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    /// The serial number: the bytes of an integer, RFC 5280, section 4.1.2.2.
    pub(super) serial: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    pub(super) subject: Vec<u8>,
    /// The `SubjectPublicKeyInfo`.
    pub(super) public_key: Vec<u8>,
    pub(super) not_before: UnixTime,
    pub(super) not_after: UnixTime,
    pub(super) is_ca: bool,
}

impl Certificate {
    /// Reads the structure of RFC 5280, section 4.1.
    ///
    /// # Errors
    /// If it is not a certificate.
    pub(super) fn read(der: &[u8]) -> Result<Self, der::Error> {
        let mut reader = SliceReader::new(der)?;
        let certificate: AnyRef<'_> = reader.decode()?;
        reader.finish()?;
        certificate.sequence(|fields| {
            let signed: AnyRef<'_> = fields.decode()?;
            let _algorithm: AnyRef<'_> = fields.decode()?;
            let _signature: AnyRef<'_> = fields.decode()?;
            signed.sequence(Self::fields)
        })
    }

    pub(super) fn is_valid_at(&self, now: UnixTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    fn fields(fields: &mut SliceReader<'_>) -> Result<Self, der::Error> {
        let first: AnyRef<'_> = fields.decode()?;
        // Version 1 is the default, and omitted.
        let serial = if first.tag() == Tag::Integer { first } else { fields.decode()? };
        let _algorithm: AnyRef<'_> = fields.decode()?;
        let issuer = fields.tlv_bytes()?.to_vec();
        let validity: AnyRef<'_> = fields.decode()?;
        let (not_before, not_after) =
            validity.sequence(|times| Ok::<_, der::Error>((time(times)?, time(times)?)))?;
        let subject = fields.tlv_bytes()?.to_vec();
        let public_key = fields.tlv_bytes()?.to_vec();
        let mut is_ca = false;
        while !fields.is_finished() {
            let field: AnyRef<'_> = fields.decode()?;
            if field.tag() == EXTENSIONS {
                let list: AnyRef<'_> = SliceReader::new(field.value())?.decode()?;
                is_ca = list.sequence(has_ca)?;
            }
        }
        let serial = serial.value().to_vec();
        Ok(Self { serial, issuer, subject, public_key, not_before, not_after, is_ca })
    }
}

fn time(times: &mut SliceReader<'_>) -> Result<UnixTime, der::Error> {
    let time: AnyRef<'_> = times.decode()?;
    let since_epoch: Duration = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(UnixTime(since_epoch))
}

/// Whether an extension marks this as the certificate of a CA.
fn has_ca(extensions: &mut SliceReader<'_>) -> Result<bool, der::Error> {
    let mut is_ca = false;
    while !extensions.is_finished() {
        let extension: AnyRef<'_> = extensions.decode()?;
        is_ca |= extension.sequence(|fields| {
            let name: AnyRef<'_> = fields.decode()?;
            let mut value: AnyRef<'_> = fields.decode()?;
            // The flag that marks an extension as critical is optional.
            if value.tag() == Tag::Boolean {
                value = fields.decode()?;
            }
            if name.value() != BASIC_CONSTRAINTS {
                return Ok(false);
            }
            let constraints: AnyRef<'_> = SliceReader::new(value.value())?.decode()?;
            constraints.sequence(|fields| {
                let is_ca = fields.decode::<Option<bool>>()?.unwrap_or(false);
                // The length limit of the chain does not matter here.
                let _length: Option<AnyRef<'_>> = fields.decode()?;
                Ok::<_, der::Error>(is_ca)
            })
        })?;
    }
    Ok(is_ca)
}
