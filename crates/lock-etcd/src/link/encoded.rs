//! How a message that is encoded already goes through tonic.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BufMut;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

/// The first size of each of the two buffers of a call, in bytes. Most messages fit. A buffer grows for the others.
const BUFFER: usize = 1024;
/// At how many bytes tonic passes on a batch before the stream ends. A call has one message, so the value does not
/// matter.
const BATCH: usize = usize::MAX;

/// Sends bytes that are a message, and receives messages of this type.
pub(super) struct Encoded<B>(PhantomData<fn() -> B>);

impl<B> Default for Encoded<B> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<B: Message + Default + 'static> Codec for Encoded<B> {
    type Encode = Vec<u8>;
    type Decode = B;
    type Encoder = Copying;
    type Decoder = ProstDecoder<B>;

    fn encoder(&mut self) -> Copying {
        Copying
    }

    fn decoder(&mut self) -> ProstDecoder<B> {
        ProstDecoder::new(BufferSettings::new(BUFFER, BATCH))
    }
}

/// Copies the bytes.
pub(super) struct Copying;

impl Encoder for Copying {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, BATCH)
    }
}
