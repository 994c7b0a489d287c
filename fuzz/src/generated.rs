//! Any value of a deserializable type, made from fuzzer bytes: numbers, texts and sequences take
//! their contents from the bytes, and a byte selects the variant of an enum.

use crate::input::Input;
use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess,
    VariantAccess, Visitor,
};

/// A value; `None` if a field refuses its number.
pub(crate) fn value<T: DeserializeOwned>(input: &mut Input<'_>) -> Option<T> {
    T::deserialize(input).ok()
}

/// One value of each variant of an enum, with numbers on both sides of 2^32.
pub(crate) fn one_of_each<T: DeserializeOwned>() -> Vec<T> {
    let of_kind = |kind: u8| {
        let bytes: Vec<u8> = (0..120_u8).map(|at| at.wrapping_mul(kind)).collect();
        let bytes = [&[kind][..], &bytes].concat();
        value(&mut Input::new(&bytes)).expect("numbers that each field takes")
    };
    let mut values: Vec<T> = vec![of_kind(0)];
    for kind in 1.. {
        let next = of_kind(kind);
        if core::mem::discriminant(&next) == core::mem::discriminant(&values[0]) {
            break;
        }
        values.push(next);
    }
    values
}

/// The remaining values of a sequence, with their number.
struct Items<'i, 'a>(&'i mut Input<'a>, usize);

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.1.checked_sub(1) else {
            return Ok(None);
        };
        self.1 = left;
        seed.deserialize(&mut *self.0).map(Some)
    }
}

/// The choice of one variant out of a number of variants.
struct Variant<'i, 'a>(&'i mut Input<'a>, usize);

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let index = u32::from(self.0.u8()) % self.1 as u32;
        let chosen = seed.deserialize(IntoDeserializer::<Error>::into_deserializer(index))?;
        Ok((chosen, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items(self.0, len))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Items(self.0, fields.len()))
    }
}

impl<'de> Deserializer<'de> for &mut Input<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        unreachable!("no message has a type that describes itself")
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.u8().is_multiple_of(2))
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u8(self.u8())
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // The only field of 16 bits is the kind of a section: 1 to 3.
        visitor.visit_u16(1 + self.u16() % 3)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(self.u32())
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(self.u32().cast_signed())
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.u64())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.u8() % 2 {
            0 => visitor.visit_some(self),
            _ => visitor.visit_none(),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let length = self.length();
        visitor.visit_seq(Items(self, length))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items(self, len))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Items(self, fields.len()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(Variant(self, variants.len()))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i64 i128 u128 f32 f64 char str bytes byte_buf unit unit_struct tuple_struct map
        identifier ignored_any
    }
}
