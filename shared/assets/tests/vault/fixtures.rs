//! Pictures and films, whole and broken.
//!
//! The files in `tests/data` come from ffmpeg 5.1, ImageMagick 6.9, cjpeg and cwebp, all from the `testsrc` pattern.

use glassline_assets::sniff::Kind;
use image::{ExtendedColorType, ImageEncoder, ImageFormat, RgbImage, RgbaImage};
use std::io::Cursor;

/// A valid file.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: (u32, u32),
    pub(crate) duration_ms: Option<u64>,
    pub(crate) frames: Option<u64>,
}

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../data/", $name)).to_vec()
    };
}
pub(crate) use data;

/// A picture in which no two neighbours are alike, so that it takes some bytes.
pub(crate) fn rgb(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let mixed = x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)) ^ (x * y);
        image::Rgb([(mixed >> 3) as u8, (mixed >> 9) as u8, (x * 5 + y * 3) as u8])
    })
}

fn encoded(format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    rgb(40, 30).write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// A small PNG of 40 × 30 pixels.
pub(crate) fn png() -> Vec<u8> {
    encoded(ImageFormat::Png)
}

fn png16() -> Vec<u8> {
    let pixels: Vec<u8> = (0..24u32 * 10 * 8).map(|n| (n * 7) as u8).collect();
    let mut out = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut out);
    encoder.write_image(&pixels, 24, 10, ExtendedColorType::Rgba16).unwrap();
    out
}

fn gif_encoded() -> Vec<u8> {
    let mut out = Vec::new();
    let picture = RgbaImage::from_fn(40, 30, |x, y| image::Rgba([x as u8 * 6, y as u8 * 8, 9, 255]));
    image::codecs::gif::GifEncoder::new(&mut out).encode_frame(image::Frame::new(picture)).unwrap();
    out
}

/// Every valid file, of all kinds and the variants that providers send.
pub(crate) fn samples() -> Vec<Sample> {
    let still = |name, kind, bytes, size, frames| Sample {
        name,
        kind,
        bytes,
        size,
        duration_ms: None,
        frames: Some(frames),
    };
    let film = |name, kind, bytes, duration_ms, frames| Sample {
        name,
        kind,
        bytes,
        size: (64, 48),
        duration_ms,
        frames,
    };
    vec![
        still("png", Kind::Png, png(), (40, 30), 1),
        still("png of 16 bits", Kind::Png, png16(), (24, 10), 1),
        still("interlaced png", Kind::Png, data!("interlaced.png"), (64, 48), 1),
        still("moving png", Kind::Png, data!("moving.apng"), (48, 32), 5),
        still("jpeg", Kind::Jpeg, encoded(ImageFormat::Jpeg), (40, 30), 1),
        still("baseline jpeg", Kind::Jpeg, data!("baseline.jpg"), (64, 48), 1),
        still("progressive jpeg", Kind::Jpeg, data!("progressive.jpg"), (64, 48), 1),
        still("grey jpeg", Kind::Jpeg, data!("gray.jpg"), (64, 48), 1),
        still("cmyk jpeg", Kind::Jpeg, data!("cmyk.jpg"), (64, 48), 1),
        still("jpeg with restarts", Kind::Jpeg, data!("restart.jpg"), (64, 48), 1),
        still("gif", Kind::Gif, gif_encoded(), (40, 30), 1),
        still("moving gif", Kind::Gif, data!("moving.gif"), (48, 32), 5),
        still("lossless webp", Kind::Webp, encoded(ImageFormat::WebP), (40, 30), 1),
        still("lossy webp", Kind::Webp, data!("lossy.webp"), (64, 48), 1),
        still("moving webp", Kind::Webp, data!("moving.webp"), (48, 32), 5),
        still("avif", Kind::Avif, data!("still.avif"), (64, 48), 1),
        film("mp4", Kind::Mp4, data!("clip.mp4"), Some(1000), Some(10)),
        film("mp4, index first", Kind::Mp4, data!("clip-faststart.mp4"), Some(1000), Some(10)),
        film("mp4 with sound", Kind::Mp4, data!("clip-sound.mp4"), Some(1000), Some(10)),
        film("mp4 in fragments", Kind::Mp4, data!("clip-fragments.mp4"), None, None),
        film("mp4, HEVC", Kind::Mp4, data!("clip-hevc.mp4"), Some(1000), Some(10)),
        film("mp4, AV1", Kind::Mp4, data!("clip-av1.mp4"), Some(1000), Some(10)),
        film("mov", Kind::Mov, data!("clip.mov"), Some(1000), Some(10)),
        film("webm", Kind::Webm, data!("clip.webm"), Some(1000), None),
        film("webm, VP9", Kind::Webm, data!("clip-vp9.webm"), Some(1000), None),
        film("live webm", Kind::Webm, data!("clip-live.webm"), None, None),
    ]
}

/// The top-level boxes of an MP4 file: name, start, size.
pub(crate) fn boxes(bytes: &[u8]) -> Vec<(String, usize, usize)> {
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        out.push((String::from_utf8_lossy(&bytes[at + 4..at + 8]).into_owned(), at, size));
        at += size;
    }
    out
}

/// An MP4 file without one of its top-level boxes.
pub(crate) fn without_box(bytes: &[u8], name: &str) -> Vec<u8> {
    let (_, at, size) = boxes(bytes).into_iter().find(|(found, ..)| found == name).unwrap();
    [&bytes[..at], &bytes[at + size..]].concat()
}

/// A PNG whose header claims a size that its data doesn't have; its checksum is right.
pub(crate) fn png_claiming(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = png();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// A real decompression bomb: 4096 × 4096 pixels of grey in some kilobytes.
pub(crate) fn bomb() -> Vec<u8> {
    let mut out = Vec::new();
    let pixels = vec![0; 4096 * 4096];
    image::codecs::png::PngEncoder::new(&mut out)
        .write_image(&pixels, 4096, 4096, ExtendedColorType::L8)
        .unwrap();
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}
