//! Pictures: the structure up to its end mark, then every pixel of every frame.
//!
//! Decoders stop when they have their pixels, so a picture cut near its end would pass; the structure is therefore
//! walked first. Bytes after the end mark are allowed, as in pictures with an appended film or gain map.

use crate::config::Limits;
use crate::sniff::Kind;
use crate::validate::Invalid;
use image::codecs::{gif::GifDecoder, png::PngDecoder, webp::WebPDecoder};
use image::{AnimationDecoder, Frames, ImageDecoder, ImageError};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// What was found of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    /// The number of its frames, when known; 1 if it doesn't move.
    pub(crate) frames: Option<u64>,
}

/// Decodes a picture whole; of an AVIF picture only the container and the header of its bitstream are read.
pub(crate) fn check(kind: Kind, bytes: &[u8], limits: &Limits) -> Result<Picture, Invalid> {
    match kind {
        Kind::Png => png(bytes, limits),
        Kind::Jpeg => jpeg(bytes, limits).map(|size| Picture { size, frames: Some(1) }),
        Kind::Gif => gif(bytes, limits),
        Kind::Webp => webp(bytes, limits),
        Kind::Avif => crate::avif::check(bytes, limits),
        Kind::Mp4 | Kind::Mov | Kind::Webm => Err(Invalid::Unknown),
    }
}

fn png(bytes: &[u8], limits: &Limits) -> Result<Picture, Invalid> {
    let mut frames = png_frames(bytes)?;
    let error = |error| decode_error("PNG", error);
    let open = || PngDecoder::with_limits(Cursor::new(bytes), image_limits(limits)).map_err(error);
    let size = still("PNG", open()?, limits)?;
    let decoder = open()?;
    if decoder.is_apng().map_err(error)? {
        check_animation(size, frames, limits)?;
        let mut decoder = decoder;
        decoder.set_limits(image_limits(limits)).map_err(error)?;
        frames = moving("PNG", decoder.apng().map_err(error)?.into_frames())?;
    } else {
        frames = 1;
    }
    Ok(Picture { size, frames: Some(frames) })
}

fn gif(bytes: &[u8], limits: &Limits) -> Result<Picture, Invalid> {
    let frames = gif_frames(bytes)?;
    let error = |error| decode_error("GIF", error);
    let mut decoder = GifDecoder::new(Cursor::new(bytes)).map_err(error)?;
    let size = check_size("GIF", &decoder, limits)?;
    check_animation(size, frames, limits)?;
    decoder.set_limits(image_limits(limits)).map_err(error)?;
    let decoded = moving("GIF", decoder.into_frames())?;
    if decoded < frames {
        Err(Invalid::Truncated("GIF"))
    } else {
        Ok(Picture { size, frames: Some(decoded) })
    }
}

fn webp(bytes: &[u8], limits: &Limits) -> Result<Picture, Invalid> {
    let frames = webp_frames(bytes)?;
    let error = |error| decode_error("WebP", error);
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(error)?;
    let size = check_size("WebP", &decoder, limits)?;
    decoder.set_limits(image_limits(limits)).map_err(error)?;
    if !decoder.has_animation() {
        return still("WebP", decoder, limits).map(|size| Picture { size, frames: Some(1) });
    }
    check_animation(size, frames, limits)?;
    let decoded = moving("WebP", decoder.into_frames())?;
    if decoded < frames {
        Err(Invalid::Truncated("WebP"))
    } else {
        Ok(Picture { size, frames: Some(decoded) })
    }
}

/// JPEG is decoded by the library that `image` uses, but strictly: `image` takes undecodable data as grey. Data that
/// stops early but is followed by an end mark still passes (no decoder at hand tells it from a grey picture).
fn jpeg(bytes: &[u8], limits: &Limits) -> Result<(u32, u32), Invalid> {
    jpeg_end(bytes)?;
    let error = |error| Invalid::corrupt("JPEG", error);
    let options =
        DecoderOptions::default().set_strict_mode(true).set_max_width(65_535).set_max_height(65_535);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(error)?;
    let (width, height) = decoder.dimensions().unwrap_or((0, 0));
    let size = (u32::try_from(width).unwrap_or(u32::MAX), u32::try_from(height).unwrap_or(u32::MAX));
    check_pixels("JPEG", size, limits)?;
    let out = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => ColorSpace::Luma,
        Some(_) | None => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(out));
    let mut pixels = buffer(decoder.output_buffer_size().unwrap_or(usize::MAX) as u64, limits)?;
    decoder.decode_into(&mut pixels).map_err(error)?;
    Ok(size)
}

fn still(kind: &'static str, decoder: impl ImageDecoder, limits: &Limits) -> Result<(u32, u32), Invalid> {
    let size = check_size(kind, &decoder, limits)?;
    let mut pixels = buffer(decoder.total_bytes(), limits)?;
    decoder.read_image(&mut pixels).map_err(|error| decode_error(kind, error))?;
    Ok(size)
}

/// Decodes all frames, one after the other, and counts them.
fn moving(kind: &'static str, frames: Frames<'_>) -> Result<u64, Invalid> {
    let mut count = 0;
    for frame in frames {
        frame.map_err(|error| decode_error(kind, error))?;
        count += 1;
    }
    if count == 0 { Err(Invalid::NoFrames) } else { Ok(count) }
}

fn check_size(
    kind: &'static str,
    decoder: &impl ImageDecoder,
    limits: &Limits,
) -> Result<(u32, u32), Invalid> {
    let size = decoder.dimensions();
    check_pixels(kind, size, limits)?;
    Ok(size)
}

pub(crate) fn check_pixels(
    kind: &'static str,
    (width, height): (u32, u32),
    limits: &Limits,
) -> Result<(), Invalid> {
    if width == 0 || height == 0 {
        return Err(Invalid::corrupt(kind, "it has no pixels"));
    }
    if width > limits.side_max_px || height > limits.side_max_px {
        return Err(Invalid::TooLarge("width or height"));
    }
    if u64::from(width) * u64::from(height) > limits.picture_max_px {
        return Err(Invalid::TooLarge("pixels"));
    }
    Ok(())
}

fn check_animation((width, height): (u32, u32), frames: u64, limits: &Limits) -> Result<(), Invalid> {
    let pixels = u64::from(width) * u64::from(height);
    // Not every decoder keeps the memory limit that it is given. A frame has up to four bytes a pixel.
    if pixels.saturating_mul(4) > limits.decode_max_bytes {
        return Err(Invalid::TooLarge("memory"));
    }
    if pixels.saturating_mul(frames) > limits.animation_max_px {
        return Err(Invalid::TooLarge("pixels of all frames"));
    }
    Ok(())
}

/// A buffer for pixels, within the memory limit.
fn buffer(size_bytes: u64, limits: &Limits) -> Result<Vec<u8>, Invalid> {
    let too_large = Invalid::TooLarge("memory");
    if size_bytes > limits.decode_max_bytes {
        return Err(too_large);
    }
    let size = usize::try_from(size_bytes).map_err(|_| Invalid::TooLarge("memory"))?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(size).map_err(|_| too_large)?;
    pixels.resize(size, 0);
    Ok(pixels)
}

fn image_limits(limits: &Limits) -> image::Limits {
    let mut out = image::Limits::default();
    out.max_image_width = Some(limits.side_max_px);
    out.max_image_height = Some(limits.side_max_px);
    out.max_alloc = Some(limits.decode_max_bytes);
    out
}

fn decode_error(kind: &'static str, error: ImageError) -> Invalid {
    match error {
        ImageError::Limits(_) => Invalid::TooLarge("memory, width or height"),
        ImageError::IoError(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            Invalid::Truncated(kind)
        }
        ImageError::Unsupported(_) => Invalid::Unsupported("a rare variant of a picture format"),
        ImageError::Decoding(_)
        | ImageError::Encoding(_)
        | ImageError::Parameter(_)
        | ImageError::IoError(_) => Invalid::corrupt(kind, error),
    }
}

/// `len` bytes of a file from `at` on.
fn part<'a>(bytes: &'a [u8], at: usize, len: usize, kind: &'static str) -> Result<&'a [u8], Invalid> {
    at.checked_add(len).and_then(|end| bytes.get(at..end)).ok_or(Invalid::Truncated(kind))
}

fn byte(bytes: &[u8], at: usize, kind: &'static str) -> Result<u8, Invalid> {
    bytes.get(at).copied().ok_or(Invalid::Truncated(kind))
}

/// Walks the chunks up to IEND and counts the frames (`fcTL`).
fn png_frames(bytes: &[u8]) -> Result<u64, Invalid> {
    let (mut at, mut frames) = (8, 0);
    loop {
        let header = part(bytes, at, 8, "PNG")?;
        let (size, name) = header.split_at(4);
        let size = size.iter().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte));
        part(bytes, at, size.saturating_add(12), "PNG")?;
        at += size + 12;
        match name {
            b"IEND" => return Ok(frames),
            b"fcTL" => frames += 1,
            _ => {}
        }
    }
}

/// Walks the markers up to EOI.
fn jpeg_end(bytes: &[u8]) -> Result<(), Invalid> {
    let (mut at, mut scans) = (2, 0);
    loop {
        // Skips entropy-coded data, in which 0xFF is followed by 0, and fill bytes.
        while byte(bytes, at, "JPEG")? != 0xff {
            at += 1;
        }
        while byte(bytes, at, "JPEG")? == 0xff {
            at += 1;
        }
        let marker = byte(bytes, at, "JPEG")?;
        at += 1;
        match marker {
            0x00 | 0x01 | 0xd0..=0xd8 => {}
            0xd9 if scans == 0 => return Err(Invalid::Truncated("JPEG")),
            0xd9 => return Ok(()),
            _ => {
                scans += u32::from(marker == 0xda);
                let size = part(bytes, at, 2, "JPEG")?;
                let size = size.iter().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte));
                at += size.max(2);
            }
        }
    }
}

/// Walks the blocks up to the trailer and counts the frames.
fn gif_frames(bytes: &[u8]) -> Result<u64, Invalid> {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3usize << ((flags & 7) + 1) };
    let mut at = 13 + table(byte(bytes, 10, "GIF")?);
    let mut frames = 0;
    loop {
        let block = byte(bytes, at, "GIF")?;
        match block {
            0x3b if frames == 0 => return Err(Invalid::NoFrames),
            0x3b => return Ok(frames),
            0x21 => at += 2,
            0x2c => {
                frames += 1;
                at += 11 + table(byte(bytes, at.saturating_add(9), "GIF")?);
            }
            _ => return Err(Invalid::corrupt("GIF", "a block of an unknown kind")),
        }
        loop {
            let size = usize::from(byte(bytes, at, "GIF")?);
            at += 1 + size;
            if size == 0 {
                break;
            }
        }
    }
}

/// Walks the chunks up to the end that the header tells and counts the frames of an animation (`ANMF`).
fn webp_frames(bytes: &[u8]) -> Result<u64, Invalid> {
    let size = |at| {
        let size = part(bytes, at, 4, "WebP")?;
        Ok(size.iter().rev().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    let end = size(4)?.saturating_add(8);
    part(bytes, 0, end, "WebP")?;
    let (mut at, mut frames) = (12usize, 0);
    while at < end {
        let name = part(bytes, at, 4, "WebP")?;
        let next = at.saturating_add(8).saturating_add(size(at + 4)?);
        if next > end {
            return Err(Invalid::Truncated("WebP"));
        }
        frames += u64::from(name == b"ANMF");
        // Chunks are padded to an even size.
        at = next + next % 2;
    }
    Ok(frames)
}
